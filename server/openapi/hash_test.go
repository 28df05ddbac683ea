// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestAnyHashIsAnswered(t *testing.T) {
	t.Parallel()
	s := start(t, allBut())
	stale := s.urls()[nodeDocument]
	staleETag := s.document(stale, "application/json").header.Get("Etag")
	s.publisher.Publish(allBut(deadlines))
	current := s.urls()[nodeDocument]
	currentETag := s.document(current, "application/json").header.Get("Etag")

	for name, tc := range map[string]struct {
		url, accept, noneMatch string
		status                 int
		etag                   string
		forGood                bool
	}{
		"the document's hash":                       {url: current, status: http.StatusOK, etag: currentETag, forGood: true},
		"the document's hash, protobuf":             {url: current, accept: v3Protobuf, status: http.StatusOK, etag: currentETag, forGood: true},
		"the document's hash, and it is known":      {url: current, noneMatch: currentETag, status: http.StatusNotModified, etag: currentETag, forGood: true},
		"a stale hash":                              {url: stale, status: http.StatusOK, etag: currentETag},
		"a stale hash, protobuf":                    {url: stale, accept: v3Protobuf, status: http.StatusOK, etag: currentETag},
		"a stale hash, and what it was of is known": {url: stale, noneMatch: staleETag, status: http.StatusOK, etag: currentETag},
		"a stale hash, and the document is known":   {url: stale, noneMatch: currentETag, status: http.StatusNotModified, etag: currentETag},
		"no hash":                  {url: "/openapi/v3/" + nodeDocument, status: http.StatusOK, etag: currentETag},
		"an empty hash":            {url: "/openapi/v3/" + nodeDocument + "?hash=", status: http.StatusOK, etag: currentETag},
		"a hash that never was":    {url: "/openapi/v3/" + nodeDocument + "?hash=x%22y&other=1", status: http.StatusOK, etag: currentETag},
		"a form that there is not": {url: stale, accept: "application/yaml", status: http.StatusNotAcceptable},
		"a form that there is not, and its own hash": {url: current, accept: "application/yaml", status: http.StatusNotAcceptable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			headers := []string{"Accept", "application/json"}
			if tc.accept != "" {
				headers[1] = tc.accept
			}
			if tc.noneMatch != "" {
				headers = append(headers, "If-None-Match", tc.noneMatch)
			}
			got := s.get(tc.url, headers...)
			if got.status != tc.status || got.header.Get("Etag") != tc.etag {
				t.Errorf("got %d with %s, want %d with %s", got.status, got.header.Get("Etag"), tc.status, tc.etag)
			}
			if forGood := strings.Contains(got.header.Get("Cache-Control"), "immutable"); forGood != tc.forGood || (got.header.Get("Expires") != "") != tc.forGood {
				t.Errorf("may be kept for good: got %v, want %t", got.header, tc.forGood)
			}
			if tc.status == http.StatusOK && (got.header.Get("Vary") != "Accept" || got.header.Get("Content-Type") != headers[1] || strings.Contains(got.body, deadlineText)) {
				t.Errorf("got %v", got.header)
			}
		})
	}
}

func TestDocumentsAreSentAsClientsReadThem(t *testing.T) {
	t.Parallel()
	s := start(t, allBut())
	for _, document := range documents {
		plain := s.document(document.path, document.accept).body
		for encoding, compressed := range map[string]bool{
			"gzip": true, "deflate, gzip;q=0.5": true, "identity": false, "gzip;q=0": false, "gzip; q=0, identity": false, "*": false,
		} {
			got := s.get(document.path, "Accept", document.accept, "Accept-Encoding", encoding)
			if is := got.header.Get("Content-Encoding") == "gzip"; is != compressed {
				t.Errorf("%s as %s, %q: compressed: %t, want %t", document.path, document.accept, encoding, is, compressed)
			}
			body := got.body
			if compressed {
				body = decompress(t, body)
			}
			if body != plain {
				t.Errorf("%s as %s, %q: it is another document", document.path, document.accept, encoding)
			}
		}
	}
	for _, path := range []string{"/openapi/v3/apis/none.example.com/v1", "/openapi/v3/"} {
		if got := s.get(path); got.status != http.StatusNotFound {
			t.Errorf("%s: got %d", path, got.status)
		}
	}
}

func decompress(t *testing.T, body string) string {
	t.Helper()
	reader, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}
