// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/admission"
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
