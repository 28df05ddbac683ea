// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterauthenticationtrust

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/kube-annex/annex/server/certificates/pki"
)

func bundle(t *testing.T, name string) []byte {
	t.Helper()
	certificate, _, err := pki.SelfSigned(name)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func provider(t *testing.T, content []byte) dynamiccertificates.CAContentProvider {
	t.Helper()
	provider, err := dynamiccertificates.NewStaticCAContent("test", content)
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

func TestMerge(t *testing.T) {
	t.Parallel()
	own, other, proxies := bundle(t, "own"), bundle(t, "other"), bundle(t, "proxies")
	trust := Trust{
		ClientCA: provider(t, own),
		RequestHeader: &authenticatorfactory.RequestHeaderConfig{
			CAContentProvider:   provider(t, proxies),
			AllowedClientNames:  headerrequest.StaticStringSlice{"proxy"},
			UsernameHeaders:     headerrequest.StaticStringSlice{"X-Remote-User"},
			UIDHeaders:          headerrequest.StaticStringSlice{"X-Remote-Uid"},
			GroupHeaders:        headerrequest.StaticStringSlice{"X-Remote-Group"},
			ExtraHeaderPrefixes: headerrequest.StaticStringSlice{"X-Remote-Extra-"},
		},
	}
	fresh := map[string]string{
		"client-ca-file":                     string(own),
		"requestheader-client-ca-file":       string(proxies),
		"requestheader-allowed-names":        `["proxy"]`,
		"requestheader-username-headers":     `["X-Remote-User"]`,
		"requestheader-uid-headers":          `["X-Remote-Uid"]`,
		"requestheader-group-headers":        `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
	with := func(changes map[string]string) map[string]string {
		changed := maps.Clone(fresh)
		maps.Copy(changed, changes)
		return changed
	}
	now := time.Now()
	for name, tc := range map[string]struct {
		existing map[string]string
		at       time.Time
		want     map[string]string
	}{
		"nothing yet":         {nil, now, fresh},
		"our own":             {fresh, now, fresh},
		"another replica's":   {with(map[string]string{"client-ca-file": string(other)}), now, with(map[string]string{"client-ca-file": string(other) + string(own)})},
		"another proxy's":     {with(map[string]string{"requestheader-allowed-names": `["a"]`}), now, with(map[string]string{"requestheader-allowed-names": `["a","proxy"]`})},
		"garbage":             {with(map[string]string{"client-ca-file": "x", "requestheader-allowed-names": "{"}), now, fresh},
		"somebody else's key": {with(map[string]string{"note": "x"}), now, with(map[string]string{"note": "x"})},
		"expired authorities": {fresh, now.AddDate(100, 0, 0), with(map[string]string{"client-ca-file": "", "requestheader-client-ca-file": ""})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, trust.mergeInto(tc.existing, tc.at)); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
	t.Run("no front proxies", func(t *testing.T) {
		t.Parallel()
		got := Trust{ClientCA: provider(t, own)}.mergeInto(nil, now)
		if diff := cmp.Diff(map[string]string{"client-ca-file": string(own)}, got); diff != "" {
			t.Errorf("(-want,+got):\n%s", diff)
		}
	})
}
