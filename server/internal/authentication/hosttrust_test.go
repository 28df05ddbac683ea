// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/kube-annex/annex/server/certificates/pki"
)

func TestTrustUsesEachPartThatIsValid(t *testing.T) {
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
			want: outcome{Clients: true, Problem: "--allow-any-requestheader-name"},
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
			data: map[string]string{
				"client-ca-file": "garbled", "requestheader-client-ca-file": ca,
				"requestheader-allowed-names": `["proxy"]`, "requestheader-username-headers": `["X-Remote-User"]`,
			},
			want: outcome{Proxies: true, Names: []string{"proxy"}, Problem: "client-ca-file: "},
		},
		"garbled front proxy's authority": {
			data: map[string]string{"client-ca-file": ca, "requestheader-client-ca-file": "garbled", "requestheader-allowed-names": `["proxy"]`},
			want: outcome{Clients: true, Problem: "requestheader-client-ca-file: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			version := parseTrust(tc.data, tc.anyName)
			got := outcome{Clients: version.clients != nil, Proxies: version.proxies.authorities != nil, Names: version.proxies.allowedNames}
			if err := version.err(); err != nil {
				got.Problem = err.Error()
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

// TestTrustKeepsTheLastValidVersionOfEachPart changes the ConfigMap from one that can be used as a whole.
func TestTrustKeepsTheLastValidVersionOfEachPart(t *testing.T) {
	t.Parallel()
	authority := func() string {
		certificate, _, err := pki.SelfSigned("authority")
		if err != nil {
			t.Fatal(err)
		}
		return string(certificate)
	}
	first, second := authority(), authority()
	type outcome struct {
		Clients, Proxies string
		Names, Users     []string
		Ready            bool
	}
	kept := outcome{Clients: first, Proxies: first, Names: []string{"proxy"}, Users: []string{"X-Remote-User"}, Ready: true}
	with := func(change func(*outcome)) outcome {
		changed := kept
		change(&changed)
		return changed
	}
	for name, tc := range map[string]struct {
		change map[string]string // an empty value removes the key
		want   outcome
	}{
		"garbled users' authority": {
			change: map[string]string{"client-ca-file": "garbled", "requestheader-allowed-names": `["proxy","other"]`},
			want:   with(func(o *outcome) { o.Names = []string{"proxy", "other"} }),
		},
		"garbled front proxy's authority": {
			change: map[string]string{"requestheader-client-ca-file": "garbled", "requestheader-allowed-names": `["other"]`, "client-ca-file": second},
			want:   with(func(o *outcome) { o.Clients = second }),
		},
		"half-written names and another authority": {
			change: map[string]string{"requestheader-client-ca-file": second, "requestheader-allowed-names": `["pro`},
			want:   kept,
		},
		"half-written headers": {change: map[string]string{"requestheader-username-headers": `["X-`, "requestheader-client-ca-file": second}, want: kept},
		"any front proxy":      {change: map[string]string{"requestheader-allowed-names": `[]`, "requestheader-client-ca-file": second}, want: kept},
		"all garbled":          {change: map[string]string{"client-ca-file": "x", "requestheader-client-ca-file": "x"}, want: kept},
		"users' authority is left out": {
			change: map[string]string{"client-ca-file": ""},
			want:   with(func(o *outcome) { o.Clients = "" }),
		},
		"the front proxy is left out": {
			change: map[string]string{"requestheader-client-ca-file": "", "requestheader-allowed-names": "", "requestheader-username-headers": ""},
			want:   with(func(o *outcome) { o.Proxies, o.Names, o.Users = "", nil, nil }),
		},
		"both are exchanged": {
			change: map[string]string{"client-ca-file": second, "requestheader-client-ca-file": second},
			want:   with(func(o *outcome) { o.Clients, o.Proxies = second, second }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trust := NewHostTrust(nil, false)
			data := map[string]string{
				"client-ca-file": first, "requestheader-client-ca-file": first,
				"requestheader-allowed-names": `["proxy"]`, "requestheader-username-headers": `["X-Remote-User"]`,
			}
			trust.observe(t.Context(), &corev1.ConfigMap{Data: data})
			maps.Copy(data, tc.change)
			// The version that cannot be used may be seen more than once.
			for range 2 {
				trust.observe(t.Context(), &corev1.ConfigMap{Data: data})
			}
			proxies := trust.RequestHeader()
			got := outcome{
				Clients: string(trust.ClientCAs().CurrentCABundleContent()), Proxies: string(proxies.CAContentProvider.CurrentCABundleContent()),
				Names: proxies.AllowedClientNames.Value(), Users: proxies.UsernameHeaders.Value(), Ready: trust.Check(nil) == nil,
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("trust (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestTrustOutlivesADeletedConfigMap has the host delete its ConfigMap, and write it again with another authority.
func TestTrustOutlivesADeletedConfigMap(t *testing.T) {
	t.Parallel()
	trust := NewHostTrust(nil, false)
	events := trust.events(t.Context())
	var configMap *corev1.ConfigMap
	for range 2 {
		certificate, _, err := pki.SelfSigned("authority")
		if err != nil {
			t.Fatal(err)
		}
		configMap = &corev1.ConfigMap{Data: map[string]string{"client-ca-file": string(certificate)}}
		events.OnAdd(configMap, false)
		events.OnDelete(configMap)
		if err := trust.Check(nil); err != nil {
			t.Errorf("not ready after the ConfigMap was deleted: %v", err)
		}
		if got := trust.ClientCAs().CurrentCABundleContent(); string(got) != string(certificate) {
			t.Errorf("after the ConfigMap was deleted the authority is %q, want the one that it had", got)
		}
	}
}

func TestTrustIsEmptyUntilTheHostAnswers(t *testing.T) {
	t.Parallel()
	trust := NewHostTrust(nil, false)
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

// TestRequestsWithCertificatesWaitForTheTrust sends requests right after the start of a server.
func TestRequestsWithCertificatesWaitForTheTrust(t *testing.T) {
	t.Parallel()
	trust := NewHostTrust(nil, false)
	loaded := make(chan bool, 2)
	authenticated := trust.Await(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		loaded <- trust.current.Load() != nil
		return nil, false, nil
	}))
	ask := func(ctx context.Context, state *tls.ConnectionState) bool {
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		request.TLS = state
		_, _, _ = authenticated.AuthenticateRequest(request)
		return <-loaded
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
		t.Error("a caller with a certificate did not wait for the trust")
	}
}

type enqueued chan struct{}

func (e enqueued) Enqueue() { e <- struct{}{} }
