// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/kube-annex/annex/server/pki"
)

func TestTrustTakesWhatItCan(t *testing.T) {
	t.Parallel()
	certificate, _, err := pki.SelfSigned("authority")
	if err != nil {
		t.Fatal(err)
	}
	ca := string(certificate)
	type outcome struct {
		Clients, Proxies bool
		Names            []string
		Problem          string // a part of it
	}
	for name, tc := range map[string]struct {
		data    map[string]string
		anyName bool
		want    outcome
	}{
		"empty": {},
		"complete": {
			data: map[string]string{
				"client-ca-file": ca, "requestheader-client-ca-file": ca,
				"requestheader-allowed-names": `["proxy"]`, "requestheader-username-headers": `["X-Remote-User"]`,
			},
			want: outcome{Clients: true, Proxies: true, Names: []string{"proxy"}},
		},
		"no front proxy": {data: map[string]string{"client-ca-file": ca}, want: outcome{Clients: true}},
		"any front proxy": {
			data: map[string]string{"client-ca-file": ca, "requestheader-client-ca-file": ca, "requestheader-allowed-names": `[]`},
			want: outcome{Clients: true, Names: []string{}, Problem: "--allow-any-requestheader-name"},
		},
		"names are missing": {
			data: map[string]string{"requestheader-client-ca-file": ca},
			want: outcome{Problem: "--allow-any-requestheader-name"},
		},
		"any front proxy on purpose": {
			data:    map[string]string{"requestheader-client-ca-file": ca, "requestheader-allowed-names": `[]`},
			anyName: true,
			want:    outcome{Proxies: true, Names: []string{}},
		},
		"half-written names": {
			data:    map[string]string{"client-ca-file": ca, "requestheader-client-ca-file": ca, "requestheader-allowed-names": `["pro`},
			anyName: true,
			want:    outcome{Clients: true, Problem: "requestheader-allowed-names: "},
		},
		"garbled users' authority": {
			data: map[string]string{"client-ca-file": "garbled"},
			want: outcome{Problem: "client-ca-file: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := readTrust(tc.data, tc.anyName)
			got := outcome{Clients: read.clients != nil, Proxies: read.proxies != nil, Names: read.allowedNames}
			if read.problem != nil {
				got.Problem = read.problem.Error()
				if tc.want.Problem != "" && strings.Contains(got.Problem, tc.want.Problem) {
					got.Problem = tc.want.Problem
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("trust (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestNobodyIsTrustedBeforeTheHostAnswers(t *testing.T) {
	t.Parallel()
	trust := newHostTrust(nil, false)
	if err := trust.Check(nil); err == nil {
		t.Error("ready before the ConfigMap was read")
	}
	if _, ok := trust.ClientCAs().VerifyOptions(); ok {
		t.Error("client certificates can be verified before the ConfigMap was read")
	}
	if _, ok := trust.RequestHeader().CAContentProvider.VerifyOptions(); ok {
		t.Error("front proxies can be verified before the ConfigMap was read")
	}

	certificate, _, err := pki.SelfSigned("authority")
	if err != nil {
		t.Fatal(err)
	}
	listener := make(enqueued, 1)
	trust.ClientCAs().AddListener(listener)
	trust.observe(t.Context(), &corev1.ConfigMap{Data: map[string]string{"client-ca-file": string(certificate)}})
	if err := trust.Check(nil); err != nil {
		t.Errorf("not ready after the ConfigMap was read: %v", err)
	}
	if _, ok := trust.ClientCAs().VerifyOptions(); !ok {
		t.Error("client certificates cannot be verified")
	}
	if len(listener) != 1 {
		t.Error("the server was not told about the new authority")
	}
}

// TestCallersWaitUntilItIsKnownWhomToTrust has a host call that a server should not turn away just because it has started a moment ago.
func TestCallersWaitUntilItIsKnownWhomToTrust(t *testing.T) {
	t.Parallel()
	trust := newHostTrust(nil, false)
	known := make(chan bool, 2)
	authenticated := trust.before(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		known <- trust.current.Load() != nil
		return nil, false, nil
	}))
	ask := func(ctx context.Context, state *tls.ConnectionState) bool {
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		request.TLS = state
		_, _, _ = authenticated.AuthenticateRequest(request)
		return <-known
	}
	shown := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	if ask(t.Context(), nil) || ask(t.Context(), &tls.ConnectionState{}) {
		t.Error("a caller without a certificate has waited")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if ask(gone, shown) {
		t.Error("a caller that has gone has waited")
	}
	waited := make(chan bool)
	go func() { waited <- ask(t.Context(), shown) }()
	trust.observe(t.Context(), &corev1.ConfigMap{})
	if !<-waited || !ask(t.Context(), shown) {
		t.Error("a caller with a certificate was judged before it was known whom to trust")
	}
}

type enqueued chan struct{}

func (e enqueued) Enqueue() { e <- struct{}{} }
