// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package remoteservers

import (
	"context"
	"fmt"
	"io"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Question is what the aggregator itself asks a server.
type Question struct {
	Path string
	// User and Groups are in whose name it asks.
	User   string
	Groups []string
	Accept string
	// Etag is that of an answer that is known; empty if none is.
	Etag string
	// Limit is how many bytes an answer may have.
	Limit int64
}

// Answer is all of what a server said.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Ask asks the APIService's server until the context ends. An answer of more bytes than the limit is an error.
func (s Servers) Ask(ctx context.Context, service *apiregistrationv1.APIService, question Question) (*Answer, error) {
	target, err := s.URL(service, question.Path)
	if err != nil {
		return nil, err
	}
	response, err := s.Begin(ctx, service, target.String(), question)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", target.String(), err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, question.Limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", target.String(), err)
	}
	if int64(len(body)) > question.Limit {
		return nil, fmt.Errorf("read %s: the answer has more than %d bytes", target.String(), question.Limit)
	}
	return &Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

// Begin asks the APIService's server at a URL, in place of the question's path, and returns when its answer has begun. Who reads it limits it.
func (s Servers) Begin(ctx context.Context, service *apiregistrationv1.APIService, target string, question Question) (*http.Response, error) {
	roundTripper, err := s.Transport(service)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	transport.SetAuthProxyHeaders(request, question.User, "", question.Groups, nil)
	if question.Accept != "" {
		request.Header.Set("Accept", question.Accept)
	}
	if question.Etag != "" {
		request.Header.Set("If-None-Match", question.Etag)
	}
	response, err := roundTripper.RoundTrip(request)
	if err != nil {
		// Connections to a server that is away must not be tried again once it is back.
		utilnet.CloseIdleConnectionsFor(roundTripper)
	}
	return response, err
}
