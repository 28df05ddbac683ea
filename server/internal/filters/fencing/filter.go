// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	wire "github.com/kube-annex/annex/apis/fencing"
)

// Check puts a term into force for a request: it returns the context to go on with, or the API status error to refuse it with.
type Check func(ctx context.Context, term wire.Term) (context.Context, error)

// WithTerms checks writes that name a term. It stands behind authorization: who may not write learns nothing of Leases.
func WithTerms(next http.Handler, serializer runtime.NegotiatedSerializer, check Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers := r.Header.Values(wire.Header)
		info, ok := request.RequestInfoFrom(r.Context())
		if len(headers) == 0 || !ok || !writes(info) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, err := inForce(r.Context(), headers, check)
		if err != nil {
			version := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
			responsewriters.ErrorNegotiated(err, serializer, version, w, r)
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func writes(info *request.RequestInfo) bool {
	if !info.IsResourceRequest {
		return false
	}
	switch info.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

func inForce(ctx context.Context, headers []string, check Check) (context.Context, error) {
	if len(headers) > 1 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s: it is there %d times; a write belongs to one term", wire.Header, len(headers)))
	}
	term, err := wire.Parse(headers[0])
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return check(ctx, term)
}
