// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"net/http"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/server/mux"
)

// anyHash serves the documents of OpenAPI v3 whatever the hash in their URL is. Where it is that of the document, clients may
// keep the answer for good.
type anyHash struct {
	*mux.PathRecorderMux
}

// HandlePrefix serves documents.
func (m anyHash) HandlePrefix(path string, handler http.Handler) {
	m.PathRecorderMux.HandlePrefix(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		hash := query.Get("hash")
		if hash == "" {
			handler.ServeHTTP(w, r)
			return
		}
		query.Del("hash")
		url := *r.URL
		url.RawQuery = query.Encode()
		withoutHash := r.WithContext(r.Context())
		withoutHash.URL = &url
		handler.ServeHTTP(&hashed{ResponseWriter: w, etag: strconv.Quote(hash)}, withoutHash)
	}))
}

// hashed writes the answer to a request that names a hash. Only the answer tells which document it got.
type hashed struct {
	http.ResponseWriter
	etag    string
	started bool
}

// WriteHeader allows clients to keep the answer if it has the hash that was asked for.
func (w *hashed) WriteHeader(status int) {
	if header := w.Header(); !w.started && header.Get("Etag") == w.etag {
		header.Set("Cache-Control", "public, immutable")
		header.Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	w.started = true
	w.ResponseWriter.WriteHeader(status)
}

// Write writes the header first.
func (w *hashed) Write(body []byte) (int, error) {
	if !w.started {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(body)
}

// Unwrap is for http.ResponseController.
func (w *hashed) Unwrap() http.ResponseWriter { return w.ResponseWriter }
