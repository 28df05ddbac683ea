// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestHealthChecksAreNotLimited as long as there are no flow schemas, which exempt them as well.
func TestHealthChecksAreNotLimited(t *testing.T) {
	t.Parallel()
	control := newFlowControl(kubernetes.NewForConfigOrDie(&rest.Config{}), 100)
	config := genericapiserver.NewConfig(serializer.NewCodecFactory(newScheme()))
	chosen := ""
	config.BuildHandlerChainFunc = func(_ http.Handler, c *genericapiserver.Config) http.Handler {
		which := "by number"
		switch {
		case c.FlowControl != nil:
			which = "by schema"
		case c.MaxRequestsInFlight == 0 && c.MaxMutatingRequestsInFlight == 0:
			which = "at once"
		}
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { chosen = which })
	}
	if err := control.applyTo(config); err != nil {
		t.Fatal(err)
	}
	handler := config.BuildHandlerChainFunc(nil, config)
	want := func(path, want string) {
		t.Helper()
		handler.ServeHTTP(nil, httptest.NewRequest(http.MethodGet, path, nil))
		if chosen != want {
			t.Errorf("%s is served %s, want %s", path, chosen, want)
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		want(path, "at once")
	}
	for _, path := range []string{"/livez/etcd", "/apis", "/livezfoo", "/"} {
		want(path, "by number")
	}
	if control.check(nil) == nil {
		t.Error("the server is ready before it is known how requests are queued")
	}
	control.active.Store(true)
	control.decided.Store(true)
	want("/livez", "by schema")
	want("/apis", "by schema")
	if err := control.check(nil); err != nil {
		t.Error(err)
	}
}
