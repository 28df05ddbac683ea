// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/controlplane"
)

func named(rule rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

func TestImpersonation(t *testing.T) {
	t.Parallel()
	audited := filepath.Join(t.TempDir(), "audit.log")
	h := startHost(t, func(o *controlplane.Options) { auditInto(t, o, audited) })
	admin := core(t, h.Admin())
	const authentication = "authentication.k8s.io"
	grantTo(t, admin, "support",
		named(allow("impersonate", "", "users"), "dave"),
		named(allow("impersonate", "", "groups"), "team"),
		named(allow("impersonate", "", "serviceaccounts"), "robot"),
		named(allow("impersonate", authentication, "userextras/scopes"), "read"),
		named(allow("impersonate", authentication, "uids"), "42"),
		allow("get", "example.com", "nothing"))
	grantTo(t, admin, "dave", allow("list", "", "configmaps"))

	for name, tc := range map[string]struct {
		who  string
		as   rest.ImpersonationConfig
		want *authenticationv1.UserInfo
	}{
		"a user":               {"support", rest.ImpersonationConfig{UserName: "dave"}, &authenticationv1.UserInfo{Username: "dave", Groups: []string{"system:authenticated"}}},
		"another user":         {"support", rest.ImpersonationConfig{UserName: "erin"}, nil},
		"a user and his group": {"support", rest.ImpersonationConfig{UserName: "dave", Groups: []string{"team"}}, &authenticationv1.UserInfo{Username: "dave", Groups: []string{"team", "system:authenticated"}}},
		"another group":        {"support", rest.ImpersonationConfig{UserName: "dave", Groups: []string{"team", "others"}}, nil},
		"administrators":       {"support", rest.ImpersonationConfig{UserName: "dave", Groups: []string{"system:masters"}}, nil},
		"an account": {"support", rest.ImpersonationConfig{UserName: "system:serviceaccount:default:robot"}, &authenticationv1.UserInfo{
			Username: "system:serviceaccount:default:robot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
		}},
		"another account": {"support", rest.ImpersonationConfig{UserName: "system:serviceaccount:default:other"}, nil},
		"an extra": {"support", rest.ImpersonationConfig{UserName: "dave", Extra: map[string][]string{"scopes": {"read"}}}, &authenticationv1.UserInfo{
			Username: "dave", Groups: []string{"system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"read"}},
		}},
		"another value of it":   {"support", rest.ImpersonationConfig{UserName: "dave", Extra: map[string][]string{"scopes": {"read", "write"}}}, nil},
		"another extra":         {"support", rest.ImpersonationConfig{UserName: "dave", Extra: map[string][]string{"roles": {"read"}}}, nil},
		"a uid":                 {"support", rest.ImpersonationConfig{UserName: "dave", UID: "42"}, &authenticationv1.UserInfo{Username: "dave", UID: "42", Groups: []string{"system:authenticated"}}},
		"another uid":           {"support", rest.ImpersonationConfig{UserName: "dave", UID: "43"}, nil},
		"a user, by a stranger": {"stranger", rest.ImpersonationConfig{UserName: "dave"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			config := h.As(tc.who)
			config.Impersonate = tc.as
			got, err := core(t, config).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if tc.want == nil {
				if !apierrors.IsForbidden(err) {
					t.Errorf("got %v, %v, want 403", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*tc.want, got.Status.UserInfo); diff != "" {
				t.Errorf("who it is (-want,+got):\n%s", diff)
			}
		})
	}
	// What is audited is written after the answer has been.
	eventually(t, func() error {
		events := auditedBy(t, audited, "stranger")
		if len(events) != 1 || events[0].ImpersonatedUser != nil || events[0].ResponseStatus.Code != 403 {
			return fmt.Errorf("the stranger's refusal is audited as %+v, want once", events)
		}
		var allowed, refused int
		for _, event := range auditedBy(t, audited, "support") {
			switch {
			case event.ResponseStatus.Code == 403:
				refused++
			case event.ImpersonatedUser != nil:
				allowed++
			}
		}
		if allowed != 5 || refused != 7 {
			return fmt.Errorf("audited %d impersonations and %d refusals, want 5 and 7", allowed, refused)
		}
		return nil
	})
	if events := auditedBy(t, audited, "dave"); len(events) != 0 {
		t.Errorf("dave did nothing himself, and is audited with %+v", events)
	}
}

func auditInto(t *testing.T, o *controlplane.Options, path string) {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, omitStages: [RequestReceived]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Audit.AddFlags(flags)
	if err := flags.Parse([]string{"--audit-log-path=" + path, "--audit-policy-file=" + policy}); err != nil {
		t.Fatal(err)
	}
}

// auditedBy returns what was audited of a user, but for a record that is just being written.
func auditedBy(t *testing.T, path, who string) []auditv1.Event {
	t.Helper()
	content, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	var events []auditv1.Event
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		if event.User.Username == who {
			events = append(events, event)
		}
	}
	return events
}
