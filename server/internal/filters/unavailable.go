// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// unavailableRetry is the Retry-After of the responses below.
const unavailableRetry = time.Second

// unavailable is the context key of a mark that is set if something needed for a decision about the request did not answer. It may be set
// after the request has timed out.
type unavailable struct{ name string }

func (key unavailable) set(ctx context.Context) {
	if mark, ok := ctx.Value(key).(*atomic.Bool); ok {
		mark.Store(true)
	}
}

// filter replaces a response with this code by a 503 with Retry-After if the mark is set. Clients retry that by themselves.
func (key unavailable) filter(handler http.Handler, code int, message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mark := &atomic.Bool{}
		r = r.WithContext(context.WithValue(r.Context(), key, mark))
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(&unavailableWriter{ResponseWriter: w, mark: mark, code: code, message: message}), r)
	})
}

type unavailableWriter struct {
	http.ResponseWriter
	mark     *atomic.Bool
	code     int
	message  string
	replaced bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *unavailableWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *unavailableWriter) WriteHeader(code int) {
	if !w.mark.Load() || code != w.code || w.replaced {
		w.ResponseWriter.WriteHeader(code)
		return
	}
	w.replaced = true
	seconds := int32(unavailableRetry.Seconds())
	w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	responsewriters.WriteRawJSON(http.StatusServiceUnavailable, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: w.message,
		Details: &metav1.StatusDetails{RetryAfterSeconds: seconds},
	}, w.ResponseWriter)
}

// Write implements http.ResponseWriter.
func (w *unavailableWriter) Write(content []byte) (int, error) {
	if w.replaced {
		return len(content), nil
	}
	return w.ResponseWriter.Write(content)
}
