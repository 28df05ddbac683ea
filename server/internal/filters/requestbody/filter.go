// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package requestbody

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/kube-annex/annex/registry/quantities"
)

// WithLimits reads bodies at a certain speed at least, and checks patches and quantities of up to maxBytes before next reads them. It
// stands behind authorization. What is larger is left to next, which refuses it.
func WithLimits(next http.Handler, serializer runtime.NegotiatedSerializer, maxBytes int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		r = r.WithContext(r.Context())
		watched := newInTime(w, r.Body)
		defer watched.stop()
		r.Body = watched
		kind, patches := kindOf(r)
		limited := hasQuantities(r)
		if !patches && !limited {
			next.ServeHTTP(w, r)
			return
		}
		content, err := io.ReadAll(io.LimitReader(r.Body, maxBytes+1))
		if err == nil && int64(len(content)) <= maxBytes {
			if patches {
				if problem := check(kind, content); problem != nil {
					refuse(w, r, serializer, apierrors.NewRequestEntityTooLargeError(problem.Error()))
					return
				}
			}
			if limited {
				if problem := quantities.CheckBody(r.Header.Get("Content-Type"), content); problem != nil {
					refuse(w, r, serializer, apierrors.NewBadRequest(problem.Error()))
					return
				}
			}
		}
		r.Body = body{io.MultiReader(bytes.NewReader(content), failing{err}, r.Body), r.Body}
		next.ServeHTTP(w, r)
	})
}

// kindOf returns what kind of patch a request has, if it is one of those that are judged.
func kindOf(r *http.Request) (types.PatchType, bool) {
	if r.Method != http.MethodPatch {
		return "", false
	}
	contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	kind := types.PatchType(strings.ToLower(strings.TrimSpace(contentType)))
	return kind, kind == types.JSONPatchType || kind == types.MergePatchType
}

// hasQuantities reports whether a request is about a resource whose objects have quantities.
func hasQuantities(r *http.Request) bool {
	info, ok := request.RequestInfoFrom(r.Context())
	return ok && info.IsResourceRequest && quantities.InResource(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource})
}

func refuse(w http.ResponseWriter, r *http.Request, serializer runtime.NegotiatedSerializer, problem error) {
	version := schema.GroupVersion{}
	if info, ok := request.RequestInfoFrom(r.Context()); ok {
		version = schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	}
	responsewriters.ErrorNegotiated(problem, serializer, version, w, r)
}

// body reads again what was read, and closes the original.
type body struct {
	io.Reader
	io.Closer
}

// failing repeats an error of reading, if there was one.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}
