// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"bufio"
	"io"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// listBufferSize is the number of bytes of a list that are written at once. An HTTP/2 frame carries 16 KiB.
const listBufferSize = 32 << 10

// WithBufferedList buffers the responses to lists. They are encoded object by object; unbuffered, each small write would pass all filters
// and become a frame of its own, which is a third of the cost of a long list.
func WithBufferedList(handler http.Handler) http.Handler {
	buffers := sync.Pool{New: func() any { return bufio.NewWriterSize(io.Discard, listBufferSize) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); !ok || info.Verb != "list" {
			handler.ServeHTTP(w, r)
			return
		}
		buffer := buffers.Get().(*bufio.Writer)
		buffer.Reset(w)
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(&bufferedWriter{ResponseWriter: w, buffer: buffer}), r)
		// The client knows of an error here: it closed the connection, or the request timed out.
		_ = buffer.Flush()
		buffer.Reset(io.Discard)
		buffers.Put(buffer)
	})
}

// bufferedWriter is the response writer of one list request.
type bufferedWriter struct {
	http.ResponseWriter
	buffer *bufio.Writer
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *bufferedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *bufferedWriter) Write(content []byte) (int, error) { return w.buffer.Write(content) }

// Flush implements http.Flusher.
func (w *bufferedWriter) Flush() {
	if w.buffer.Flush() == nil {
		// http.Flusher returns no error.
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}
