// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"bufio"
	"io"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// listPiece is how many bytes of a list are written at once. HTTP/2 sends 16 KiB in a frame.
const listPiece = 32 << 10

// inPieces has lists written in pieces. They are encoded an object at a time, and each little write would pass all filters and be sent
// as a frame of its own: that is a third of what a long list costs.
func inPieces(api http.Handler) http.Handler {
	buffers := sync.Pool{New: func() any { return bufio.NewWriterSize(io.Discard, listPiece) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); !ok || info.Verb != "list" {
			api.ServeHTTP(w, r)
			return
		}
		buffer := buffers.Get().(*bufio.Writer)
		buffer.Reset(w)
		api.ServeHTTP(responsewriter.WrapForHTTP1Or2(&pieces{ResponseWriter: w, buffer: buffer}), r)
		// An error here is one that the client knows of: nobody reads any more, or time is up.
		_ = buffer.Flush()
		buffer.Reset(io.Discard)
		buffers.Put(buffer)
	})
}

// pieces is the answer to one request for a list.
type pieces struct {
	http.ResponseWriter
	buffer *bufio.Writer
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (p *pieces) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write implements http.ResponseWriter.
func (p *pieces) Write(content []byte) (int, error) { return p.buffer.Write(content) }

// Flush implements http.Flusher.
func (p *pieces) Flush() {
	if p.buffer.Flush() == nil {
		// Whoever flushes cannot be told of errors.
		_ = http.NewResponseController(p.ResponseWriter).Flush()
	}
}
