// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/internal/admission"
)

// TestOwnCredentialsStayAtHome sends those of the server to nobody but the service that is resolved to it.
func TestOwnCredentialsStayAtHome(t *testing.T) {
	t.Parallel()
	// The library's finds the credentials of the pod that the server runs in for this address.
	anonymous := func(string, string, int) (*rest.Config, error) { return &rest.Config{}, nil }
	delegate := &webhook.AuthenticationInfoResolverDelegator{ClientConfigForServiceFunc: anonymous, ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
		if hostPort == "kubernetes.default.svc:443" {
			return &rest.Config{BearerToken: "of the pod"}, nil
		}
		return anonymous("", "", 0)
	}}
	home := &rest.Config{Host: "https://127.0.0.1:6443", BearerToken: "secret"}
	for name, tc := range map[string]struct {
		loopback *rest.Config
		call     func(webhook.AuthenticationInfoResolver) (*rest.Config, error)
		want     string
	}{
		"the service": {home, func(r webhook.AuthenticationInfoResolver) (*rest.Config, error) {
			return r.ClientConfigForService("kubernetes", "default", 443)
		}, "secret"},
		"another port": {home, func(r webhook.AuthenticationInfoResolver) (*rest.Config, error) {
			return r.ClientConfigForService("kubernetes", "default", 8443)
		}, ""},
		"another namespace": {home, func(r webhook.AuthenticationInfoResolver) (*rest.Config, error) {
			return r.ClientConfigForService("kubernetes", "kube-system", 443)
		}, ""},
		"the url": {home, func(r webhook.AuthenticationInfoResolver) (*rest.Config, error) {
			return r.ClientConfigFor("kubernetes.default.svc:443")
		}, ""},
		"an extension's host": {nil, func(r webhook.AuthenticationInfoResolver) (*rest.Config, error) {
			return r.ClientConfigForService("kubernetes", "default", 443)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := must[*rest.Config](t)(tc.call(admission.Credentials(tc.loopback, noop.NewTracerProvider())(delegate)))
			if config.BearerToken != tc.want {
				t.Errorf("the token is %q, want %q", config.BearerToken, tc.want)
			}
		})
	}
	if home.WrapTransport != nil {
		t.Error("the server's own configuration was changed")
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// answering answers every request alike.
type answering struct {
	status int
	length int
	err    error
}

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(strings.NewReader(strings.Repeat("x", a.length)))}, nil
}

// TestAnswersOfWebhooks reads them as far as they may go.
func TestAnswersOfWebhooks(t *testing.T) {
	t.Parallel()
	const most = 8 << 20
	for name, tc := range map[string]struct {
		answer answering
		want   string // part of an error; empty if the answer is read
	}{
		"good":                          {answer: answering{status: http.StatusOK, length: 10}},
		"the last status that is good":  {answer: answering{status: 299}},
		"the first redirect":            {answer: answering{status: http.StatusMultipleChoices}, want: "redirects are not followed"},
		"a redirect":                    {answer: answering{status: http.StatusFound}, want: "redirects are not followed"},
		"the last redirect":             {answer: answering{status: 399}, want: "redirects are not followed"},
		"the first error of the client": {answer: answering{status: http.StatusBadRequest}},
		"an error of the server":        {answer: answering{status: http.StatusInternalServerError}},
		"as long as it may be":          {answer: answering{status: http.StatusOK, length: most}},
		"too long":                      {answer: answering{status: http.StatusOK, length: most + 1}, want: "too large"},
		"none":                          {answer: answering{err: errors.New("connection refused")}, want: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			delegate := &webhook.AuthenticationInfoResolverDelegator{ClientConfigForServiceFunc: func(string, string, int) (*rest.Config, error) { return &rest.Config{}, nil }}
			config := must[*rest.Config](t)(admission.Credentials(nil, noop.NewTracerProvider())(delegate).ClientConfigForService("webhook", "default", 443))
			request := httptest.NewRequest(http.MethodPost, "https://webhook.default.svc", nil)
			response, err := config.WrapTransport(tc.answer).RoundTrip(request)
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
