// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	mergeType    = "application/merge-patch+json"
	applyType    = "application/apply-patch+yaml"
)

// client is one client with a connection of its own. Requests are raw, so that what is measured is the server and not the client's
// decoding. A client is used by one goroutine.
type client struct {
	http *http.Client
	base string
	body bytes.Buffer
}

// newClient returns a client that has not connected yet. It asks for no compression: on one machine it would only cost.
func newClient(config *rest.Config) (*client, error) {
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	return &client{
		http: &http.Client{Transport: &http.Transport{TLSClientConfig: security, ForceAttemptHTTP2: true, DisableCompression: true}},
		base: strings.TrimSuffix(url.String(), "/"),
	}, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// request is what a client sends.
type request struct {
	method, path string
	contentType  string
	accept       string
	body         []byte
	// want is the status of a good answer, 200 where it is 0.
	want int
}

// open returns the answer unread if it is the one that was wanted.
func (c *client) open(ctx context.Context, r request) (*http.Response, error) {
	sent, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	sent.Header.Set("Accept", jsonType)
	if r.accept != "" {
		sent.Header.Set("Accept", r.accept)
	}
	if r.contentType != "" {
		sent.Header.Set("Content-Type", r.contentType)
	}
	response, err := c.http.Do(sent)
	if err != nil {
		return nil, err
	}
	want := r.want
	if want == 0 {
		want = http.StatusOK
	}
	if response.StatusCode != want || r.accept != "" && response.Header.Get("Content-Type") != r.accept {
		message, _ := io.ReadAll(io.LimitReader(response.Body, 400))
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s %s: %s, %s: %s", r.method, r.path, response.Status, response.Header.Get("Content-Type"), message)
	}
	return response, nil
}

// do sends a request and returns the answer, which is good until the next one.
func (c *client) do(ctx context.Context, r request) ([]byte, error) {
	response, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	c.body.Reset()
	_, err = c.body.ReadFrom(response.Body)
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	return c.body.Bytes(), err
}

// discard sends a request and returns how long the answer is.
func (c *client) discard(ctx context.Context, r request) (int64, error) {
	response, err := c.open(ctx, r)
	if err != nil {
		return 0, err
	}
	length, err := io.Copy(io.Discard, response.Body)
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	return length, err
}

var revisionKey = []byte(`"resourceVersion":"`)

// revisionOf finds the resource version in an answer.
func revisionOf(answer []byte) (string, error) {
	_, after, _ := bytes.Cut(answer, revisionKey)
	revision, _, found := bytes.Cut(after, []byte(`"`))
	if !found {
		return "", fmt.Errorf("an answer has no resource version: %.200s", answer)
	}
	return string(revision), nil
}
