// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/handler3"
)

const pathV3 = "/openapi/v3"

// serveV3 serves the list of documents of OpenAPI v3 and the documents, whatever the hash in their URL is. Where it is that of the
// document, clients may keep the answer for good.
func serveV3(paths *mux.PathRecorderMux, documents []*published) {
	byName := map[string]*published{}
	for _, document := range documents {
		byName[document.name] = document
	}
	paths.Handle(pathV3, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, err := listV3(byName)
		if err != nil {
			klog.FromContext(r.Context()).Error(err, "Listing the OpenAPI documents")
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Etag", strconv.Quote(fmt.Sprintf("%X", sha512.Sum512(list))))
		w.Header().Set("Content-Type", "application/json")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(list))
	}))
	paths.HandlePrefix(pathV3+"/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document, ok := byName[strings.TrimPrefix(r.URL.Path, pathV3+"/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		document.serve(w, r, acceptedV3)
	}))
}

func listV3(documents map[string]*published) ([]byte, error) {
	list := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for name, document := range documents {
		hash, err := document.hash()
		if err != nil {
			return nil, err
		}
		location := url.URL{Path: pathV3 + "/" + name, RawQuery: url.Values{"hash": {hash}}.Encode()}
		list.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: location.String()}
	}
	body, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encode the list of OpenAPI documents: %w", err)
	}
	return body, nil
}

// allowKeeping lets the client keep the answer to a request that names the document's hash.
func allowKeeping(w http.ResponseWriter, r *http.Request, hash string) {
	if r.URL.Query().Get("hash") == hash {
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
}
