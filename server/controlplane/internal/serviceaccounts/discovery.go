// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccounts

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/server/mux"
)

const (
	// ConfigurationPath tells about the issuer, as OpenID Connect has it.
	ConfigurationPath = "/.well-known/openid-configuration"
	// KeysPath tells by which keys its tokens are verified.
	KeysPath = "/openid/v1/jwks"

	// documentAge is for how long others may keep the documents, so how long before it signs a key has to be published.
	documentAge = time.Hour
)

// configuration is the part of OpenID Connect's provider metadata that says how tokens are verified.
type configuration struct {
	Issuer        string   `json:"issuer"`
	KeysURI       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// ServeDiscovery serves what others verify tokens by. Where the issuer is no https URL, nobody could find it, and nothing is
// served. The keys are said to be at keysURI.
func (t *Tokens) ServeDiscovery(mux *mux.PathRecorderMux, keysURI string) {
	issuer := t.config.Issuers[0]
	if !discoverable(issuer) {
		return
	}
	mux.Handle(ConfigurationPath, document("application/json", func(r *http.Request) any {
		c := configuration{Issuer: issuer, KeysURI: keysURI, ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"}}
		for _, key := range t.keys.current(r.Context()).public {
			c.Algorithms = append(c.Algorithms, string(key.algorithm))
		}
		slices.Sort(c.Algorithms)
		c.Algorithms = slices.Compact(c.Algorithms)
		return c
	}))
	mux.Handle(KeysPath, document("application/jwk-set+json", func(r *http.Request) any {
		return t.keys.current(r.Context()).set()
	}))
}

func discoverable(issuer string) bool {
	parsed, err := url.Parse(issuer)
	return err == nil && parsed.Scheme == "https" && parsed.Host != "" && parsed.RawQuery == "" && parsed.Fragment == ""
}

func document(contentType string, content func(*http.Request) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET is served here", http.StatusMethodNotAllowed)
			return
		}
		body, err := json.Marshal(content(r))
		if err != nil {
			http.Error(w, "the document cannot be encoded", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(documentAge.Seconds())))
		_, _ = w.Write(body)
	})
}
