// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"

	"k8s.io/klog/v2"
)

// compressed is a document in one of its forms.
type compressed []byte

func compress(body []byte) (compressed, error) {
	var out bytes.Buffer
	writer, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if _, err = writer.Write(body); err == nil {
		err = writer.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return bytes.Clone(out.Bytes()), nil
}

func (c compressed) plain() ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(c))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	body, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return body, nil
}

// accepted is a type by which clients ask for a document.
type accepted struct {
	subType, returned string
	form              form
}

var (
	acceptedV2 = acceptedWith("com.github.proto-openapi.spec.v2.v1.0+protobuf", "com.github.proto-openapi.spec.v2@v1.0+protobuf")
	acceptedV3 = acceptedWith("com.github.proto-openapi.spec.v3.v1.0+protobuf", "com.github.proto-openapi.spec.v3@v1.0+protobuf")
)

// acceptedWith returns the types of a version of OpenAPI. The deprecated one has a character that is not allowed there.
func acceptedWith(protobuf, deprecated string) []accepted {
	return []accepted{
		{"json", "application/json", asJSON},
		{protobuf, "application/" + protobuf, asProtobuf},
		{deprecated, "application/" + protobuf, asProtobuf},
	}
}

// negotiate returns the form that the client likes best.
func negotiate(r *http.Request, types []accepted) (accepted, bool) {
	header := r.Header.Get("Accept")
	if header == "" {
		header = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		if clause.Type != "application" && clause.Type != "*" {
			continue
		}
		for _, one := range types {
			if clause.SubType == one.subType || clause.SubType == "*" {
				return one, true
			}
		}
	}
	return accepted{}, false
}

// serve answers a request for the document.
func (p *published) serve(w http.ResponseWriter, r *http.Request, types []accepted) {
	w.Header().Add("Vary", "Accept")
	wanted, ok := negotiate(r, types)
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	content, etag, modified, err := p.get(wanted.form)
	body := []byte(content)
	if err == nil && !acceptsGzip(r) {
		body, err = content.plain()
	}
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "Making an OpenAPI document", "document", p.name)
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", wanted.returned)
	w.Header().Set("Etag", strconv.Quote(etag))
	allowKeeping(w, r, etag)
	if acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
	}
	http.ServeContent(w, r, "", modified, bytes.NewReader(body))
}

// acceptsGzip tells whether the client reads compressed answers.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.TrimSpace(name) == "gzip" {
			weight, isSet := strings.CutPrefix(strings.ReplaceAll(quality, " ", ""), "q=")
			value, err := strconv.ParseFloat(weight, 64)
			return !isSet || err == nil && value > 0
		}
	}
	return false
}
