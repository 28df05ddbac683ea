// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	asJSON  = "application/json"
	asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	jsonPatch      = "application/json-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

// server is one of the two that are asked, by a user with all rights.
type server struct {
	name, url, kubeconfig string
	client                *http.Client
}

func newServer(name, kubeconfig string, config *rest.Config) (*server, error) {
	config = rest.CopyConfig(config)
	config.Timeout = time.Minute
	config.WarningHandler = rest.NoWarnings{}
	// To both of them it is the same user who asks.
	config.Impersonate = rest.ImpersonationConfig{UserName: "verdicts", Groups: []string{"system:masters"}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", name, err)
	}
	return &server{name: name, url: config.Host, kubeconfig: kubeconfig, client: client}, nil
}

func (s *server) makeNamespace(ctx context.Context) error {
	body := []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + namespace + `"}}`)
	a, err := s.ask(ctx, request{method: http.MethodPost, path: "/api/v1/namespaces", body: body})
	if err == nil && a.code != http.StatusCreated {
		err = fmt.Errorf("it answered %d %s", a.code, a.text)
	}
	if err != nil {
		return fmt.Errorf("create namespace %s in %s: %w", namespace, s.name, err)
	}
	return nil
}

// request is what a server is asked. The content type is JSON unless it is given.
type request struct {
	method, path        string
	query               url.Values
	contentType, accept string
	body                []byte
}

// answer is what a server said.
type answer struct {
	// to is what it answers, in words.
	to string
	// prefix is what the name of the object was generated from, if it was.
	prefix   string
	code     int
	warnings []string
	text     string
	// object is the body, nil if it is no JSON object.
	object map[string]any
}

func (s *server) ask(ctx context.Context, r request) (answer, error) {
	target := s.url + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	out, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	out.Header.Set("Accept", asJSON)
	if r.accept != "" {
		out.Header.Set("Accept", r.accept)
	}
	if len(r.body) > 0 {
		out.Header.Set("Content-Type", asJSON)
	}
	if r.contentType != "" {
		out.Header.Set("Content-Type", r.contentType)
	}
	response, err := s.client.Do(out)
	if err != nil {
		return answer{}, fmt.Errorf("ask %s: %w", s.name, err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read the answer of %s: %w", s.name, err)
	}
	a := answer{code: response.StatusCode, text: string(content)}
	headers, errs := utilnet.ParseWarningHeaders(response.Header.Values("Warning"))
	for _, header := range headers {
		a.warnings = append(a.warnings, header.Text)
	}
	for _, err := range errs {
		a.warnings = append(a.warnings, err.Error())
	}
	if json.Valid(content) {
		// What is no object, such as a number, is compared as text.
		_ = utiljson.Unmarshal(content, &a.object)
	}
	return a, nil
}
