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
	// valueSize makes an object of about 1 KiB.
	valueSize = 700
)

// target is one peer. Requests are raw, so that what is measured is the server and not a client's decoding.
type target struct {
	name, path       string
	apiVersion, kind string
	protobuf         bool
	config           *rest.Config
	client           *http.Client
	base             string
}

func (t *target) connect() error {
	url, _, err := rest.DefaultServerUrlFor(t.config)
	if err != nil {
		return err
	}
	t.base = strings.TrimSuffix(url.String(), "/")
	t.client, err = rest.HTTPClientFor(t.config)
	return err
}

// own returns the name of an object that only this peer works on, since both ways to a ClusterClaim share what is stored.
func (t *target) own(i int) string {
	return fmt.Sprintf("%s-%d.example.com", strings.ToLower(strings.ReplaceAll(t.name, ", ", "-")), i)
}

// object returns an object with a value of its own.
func (t *target) object(name, value string) []byte {
	content := fmt.Sprintf(`"spec":{"value":%q}`, value)
	if t.kind == "ConfigMap" {
		content = fmt.Sprintf(`"data":{"value":%q}`, value)
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"bench":"yes"}},%s}`, t.apiVersion, t.kind, name, content)
}

// change returns a merge patch of the value.
func (t *target) change(value string) []byte {
	if t.kind == "ConfigMap" {
		return fmt.Appendf(nil, `{"data":{"value":%q}}`, value)
	}
	return fmt.Appendf(nil, `{"spec":{"value":%q}}`, value)
}

func valueOf(seed string) string { return seed + strings.Repeat(".", valueSize-len(seed)) }

// request sends one request and reads the whole answer.
func (t *target) request(ctx context.Context, method, suffix, contentType string, body []byte) error {
	return t.requestAs(ctx, method, suffix, contentType, jsonType, body)
}

func (t *target) requestAs(ctx context.Context, method, suffix, contentType, accept string, body []byte) error {
	response, err := t.open(ctx, method, suffix, contentType, accept, body)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	return err
}

// open returns the answer unread if it is a success.
func (t *target) open(ctx context.Context, method, suffix, contentType, accept string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, t.base+t.path+suffix, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := t.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		message, _ := io.ReadAll(io.LimitReader(response.Body, 400))
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", method, suffix, response.Status, message)
	}
	return response, nil
}
