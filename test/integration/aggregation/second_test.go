// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
)

// secondGroup is of custom resources of the second control plane, which the first one serves as well.
const secondGroup = "second.example.com"

// second is another control plane behind an APIService of the first one, and believes what that one says about users.
type second struct {
	*framework.Server
	ca []byte
}

// startSecond has the first control plane serve v1 of secondGroup.
func startSecond(t *testing.T, w *world) *second {
	t.Helper()
	s := &second{}
	s.Server = framework.Start(t, func(o *standalone.Options) {
		// Both have the authority of front proxies in common, so that the first one can speak for its users.
		o.DataDir = filepath.Join(o.DataDir, "second")
		if err := os.MkdirAll(filepath.Join(o.DataDir, "pki"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"front-proxy-ca.crt", "front-proxy-ca.key"} {
			content, err := os.ReadFile(filepath.Join(w.DataDir(), "pki", file))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(o.DataDir, "pki", file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
	s.known(t, w)
	var err error
	if s.ca, err = os.ReadFile(filepath.Join(s.DataDir(), "pki", "serving-ca.crt")); err != nil {
		t.Fatal(err)
	}
	define(t, s.APIExtensions, secondGroup, "how large it was at first")
	w.register(t, secondGroup, apiregistrationv1.ServiceReference{Namespace: "default", Name: "kubernetes"}, s.ca)
	return s
}

// known tells the first control plane where the second one is.
func (s *second) known(t *testing.T, w *world) {
	t.Helper()
	at, err := url.Parse(s.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	w.services.set("kubernetes", at.Host)
}
