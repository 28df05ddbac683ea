// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusteridentity_test

import (
	"strings"
	"testing"

	"github.com/kube-annex/annex/clusteridentity"
)

func TestDNSName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 63)
	for name, tc := range map[string]struct {
		hostname, id, service, namespace string
		want                             string
		errors                           []string
	}{
		"a backend":            {"db-0", "cluster-1", "db", "shop", "db-0.cluster-1.db.shop.svc.clusterset.local", nil},
		"labels of digits":     {"0", "1", "2", "3", "0.1.2.3.svc.clusterset.local", nil},
		"as long as can be":    {long, long, long, strings.Repeat("n", 40), strings.Join([]string{long, long, long, strings.Repeat("n", 40)}, ".") + ".svc.clusterset.local", nil},
		"one longer":           {long, long, long, strings.Repeat("n", 41), "", []string{"has 254 characters, and DNS allows 253; shorten the hostname"}},
		"nothing":              {"", "", "", "", "", []string{"the hostname is empty", "the cluster id is empty; give the value of the cluster's ClusterClaim id.k8s.io", "the service is empty", "the namespace is empty"}},
		"a hostname with dots": {"db-0.shop", "c", "s", "n", "", []string{`the hostname "db-0.shop" cannot be a part of a DNS name: must not contain dots`, "give the pod's spec.hostname"}},
		"a label too long":     {"h", long + "x", "s", "n", "", []string{"63", "id.k8s.io"}},
		"capitals":             {"h", "c", "Db", "Shop", "", []string{`the service "Db"`, `the namespace "Shop"`, "lowercase RFC 1123 label"}},
		"a newline":            {"h", "c\n", "s", "n", "", []string{`the cluster id "c\n"`}},
		"an injected name":     {"h", "evil.example", "s", "n", "", []string{`the cluster id "evil.example"`}},
		"a hyphen at the end":  {"h-", "c", "s", "n", "", []string{`the hostname "h-"`}},
		"another alphabet":     {"h", "ñ", "s", "n", "", []string{`the cluster id "ñ"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := clusteridentity.DNSName(tc.hostname, tc.id, tc.service, tc.namespace)
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if (err != nil) != (len(tc.errors) > 0) {
				t.Fatalf("error is %v, want %q", err, tc.errors)
			}
			for _, want := range tc.errors {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

func TestOnlyMembersHaveNames(t *testing.T) {
	t.Parallel()
	member := clusteridentity.Identity{Known: true, ID: "c", ClusterSet: "fleet"}
	if got, err := member.DNSName("h", "s", "n"); err != nil || got != "h.c.s.n.svc.clusterset.local" {
		t.Errorf("got %q, %v", got, err)
	}
	for want, identity := range map[string]clusteridentity.Identity{
		"a cluster that is not known yet": {},
		"a cluster without an id":         {Known: true},
		"c in no set":                     {Known: true, ID: "c"},
	} {
		if name, err := identity.DNSName("h", "s", "n"); name != "" || err == nil || !strings.Contains(err.Error(), want+" has no names in clusterset.local; wait with WaitForMembership") {
			t.Errorf("%v: got %q, %v", identity, name, err)
		}
	}
	if got := member.String(); got != "c in fleet" {
		t.Errorf("a member is called %q", got)
	}
}
