// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

const (
	// reviewTimeout is how long a request waits for the host to say whether it is allowed, all tries together.
	reviewTimeout = 10 * time.Second
	// reviewRetry is how soon clients are told to come again when the host did not say it.
	reviewRetry = time.Second
)

// unanswered is about one request: whether the host could not be asked if it is allowed.
// It may be told after the request has timed out.
type unanswered struct{ happened atomic.Bool }

type unansweredKey struct{}

// reviews are an authorizer that asks the host. A host that is slow or away costs a request reviewTimeout at most.
type reviews struct{ authorizer.Authorizer }

// Authorize asks the host, or remembers what it said.
func (r reviews) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	limited, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	decision, reason, err := r.Authorizer.Authorize(limited, attributes)
	if err != nil {
		if request, ok := ctx.Value(unansweredKey{}).(*unanswered); ok {
			request.happened.Store(true)
		}
	}
	return decision, reason, err
}

// ConditionsAwareAuthorize is the same: the host's answers have no conditions.
func (r reviews) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(r.Authorize(ctx, attributes))
}

// withUnanswered refuses a request that the host could not be asked about with 503 and when to come again, which clients do by
// themselves. The generic server has a plain 500 for it, with the host's address.
func withUnanswered(chain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := &unanswered{}
		r = r.WithContext(context.WithValue(r.Context(), unansweredKey{}, request))
		chain.ServeHTTP(responsewriter.WrapForHTTP1Or2(&unansweredWriter{ResponseWriter: w, request: request}), r)
	})
}

func refuseUnanswered(w http.ResponseWriter) {
	seconds := int32(reviewRetry.Seconds())
	w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	responsewriters.WriteRawJSON(http.StatusServiceUnavailable, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: "the host could not be asked whether this is allowed; try again",
		Details: &metav1.StatusDetails{RetryAfterSeconds: seconds},
	}, w)
}

// unansweredWriter puts the answer to a request that the host could not be asked about in place of the generic server's.
type unansweredWriter struct {
	http.ResponseWriter
	request *unanswered
	refused bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *unansweredWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *unansweredWriter) WriteHeader(code int) {
	if w.request.happened.Load() && code == http.StatusInternalServerError && !w.refused {
		w.refused = true
		refuseUnanswered(w.ResponseWriter)
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *unansweredWriter) Write(content []byte) (int, error) {
	if w.refused {
		return len(content), nil
	}
	return w.ResponseWriter.Write(content)
}
