// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"

	"github.com/kube-annex/annex/apis/fencing"
)

// fenced marks the writes of a term and sends nothing once the term is over. Requests under way are cut off then: all runnables
// have returned, so nobody waits for them.
type fenced struct {
	term *Term
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f *fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	writes := request.Method != http.MethodGet && request.Method != http.MethodHead && request.Method != http.MethodOptions
	if err := f.term.over(); err != nil {
		if writes {
			f.term.metrics.lateWrites.WithLabelValues(f.term.metrics.name).Inc()
		}
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("%s %s is not sent: %w", request.Method, request.URL.Path, err)
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	forget := context.AfterFunc(f.term.lifetime, func() { cancel(context.Cause(f.term.lifetime)) }) //nolint:contextcheck // the request ends with its term as well
	finish := func() {
		forget()
		cancel(nil)
	}
	request = request.Clone(ctx)
	if writes {
		request.Header.Set(fencing.Header, f.term.fence.String())
		if query := request.URL.Query(); f.term.markWrites && !query.Has(fieldManager) && request.Method != http.MethodDelete {
			query.Set(fieldManager, f.term.fence.Holder)
			request.URL.RawQuery = query.Encode()
		}
	}
	response, err := f.send(request)
	if isStreamedList(request) {
		response, err = withoutSleep(response, err)
	}
	if err != nil {
		finish()
		return nil, err
	}
	f.term.denials.note(f.term.clock.Elapsed(), request, response)
	if response.StatusCode != http.StatusSwitchingProtocols {
		response.Body = &finishing{ReadCloser: response.Body, finish: finish}
	}
	return response, nil
}

// send has the connections that are dialled for the request marked as such, by the labels of the goroutine that sends it.
func (f *fenced) send(request *http.Request) (response *http.Response, err error) {
	call := pprof.Labels(callLabel, "true")
	if _, ok := pprof.Label(request.Context(), termLabel); ok {
		pprof.Do(request.Context(), call, func(context.Context) { response, err = f.next.RoundTrip(request) })
		return response, err
	}
	// The caller's labels are not known, so they could not be put back.
	sent := make(chan struct{})
	go pprof.Do(f.term.labels, call, func(context.Context) { //nolint:contextcheck // it has labels only; the request has its own context
		defer close(sent)
		response, err = f.next.RoundTrip(request)
	})
	<-sent
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (f *fenced) WrappedRoundTripper() http.RoundTripper { return f.next }

const fieldManager = "fieldManager"

// finishing is a body that says when nobody reads it any more.
type finishing struct {
	io.ReadCloser
	finish func()
}

func (b *finishing) Close() error {
	defer b.finish()
	return b.ReadCloser.Close()
}
