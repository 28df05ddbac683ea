// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/controlplane"
)

// TestAttacksAreAuditedOnceWithWhoTried has mallory, who may impersonate joe and write roles, try what others may do.
func TestAttacksAreAuditedOnceWithWhoTried(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startHost(t, func(o *controlplane.Options) {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.Audit.AddFlags(flags)
		if err := flags.Parse([]string{"--audit-policy-file", policy, "--audit-log-path", log, "--audit-log-mode", "blocking"}); err != nil {
			t.Fatal(err)
		}
		o.Authorizers = append(o.Authorizers, authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			mallory := a.GetUser().GetName() == "mallory"
			if mallory && (a.GetVerb() == "impersonate" && a.GetName() == "joe" || a.GetAPIGroup() == "rbac.authorization.k8s.io" && a.GetVerb() == "create") {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		}))
	})
	const role = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"all"},"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`
	attacks := map[string]struct {
		method, path, body string
		headers            map[string]string
		code               int
		user, impersonated string
	}{
		"headers of a front proxy":      {path: "/api/v1/secrets", headers: map[string]string{"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}, code: 403, user: "mallory"},
		"headers that are hop by hop":   {path: "/api/v1/secrets", headers: map[string]string{"X-Remote-User": "admin", "Connection": "X-Remote-User, Authorization"}, code: 403, user: "mallory"},
		"an impersonated administrator": {path: "/api/v1/secrets", headers: map[string]string{"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}, code: 403, user: "mallory"},
		"an impersonated uid":           {path: "/api/v1/secrets", headers: map[string]string{"Impersonate-User": "joe", "Impersonate-Uid": "1"}, code: 403, user: "mallory"},
		"impersonated extras":           {path: "/api/v1/secrets", headers: map[string]string{"Impersonate-User": "joe", "Impersonate-Extra-Scopes": "all"}, code: 403, user: "mallory"},
		"an impersonated group":         {path: "/api/v1/secrets", headers: map[string]string{"Impersonate-User": "joe", "Impersonate-Group": "system:masters"}, code: 403, user: "mallory"},
		"joe, who may do nothing":       {path: "/api/v1/secrets", headers: map[string]string{"Impersonate-User": "joe"}, code: 403, user: "mallory", impersonated: "joe"},
		"joe, who may look around":      {path: "/apis", headers: map[string]string{"Impersonate-User": "joe"}, code: 200, user: "mallory", impersonated: "joe"},
		"a role beyond the own rights":  {method: http.MethodPost, path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", body: role, code: 403, user: "mallory"},
		"a path around the prefix":      {path: "/apis/../api/v1/secrets", code: 403, user: "mallory"},
	}
	for name, attack := range attacks {
		if got := attempt(t, h.As("mallory"), name, attack.method, attack.path, attack.body, attack.headers); got != attack.code {
			t.Errorf("%s: got status %d, want %d", name, got, attack.code)
		}
	}
	h.Stop()
	recorded := recordsOf(t, log)
	for name, attack := range attacks {
		records := recorded[auditID(name)]
		if len(records) != 1 {
			t.Errorf("%s: %d audit records, want one", name, len(records))
			continue
		}
		got := []any{records[0].User.Username, "", int(records[0].ResponseStatus.Code)}
		if records[0].ImpersonatedUser != nil {
			got[1] = records[0].ImpersonatedUser.Username
		}
		if diff := cmp.Diff([]any{attack.user, attack.impersonated, attack.code}, got); diff != "" {
			t.Errorf("%s: audited as (-want,+got):\n%s", name, diff)
		}
	}
}

func auditID(name string) string { return strings.ReplaceAll(name, " ", "-") }

// attempt sends a request as it is, and returns the status code.
func attempt(t *testing.T, config *rest.Config, name, method, path, body string, headers map[string]string) int {
	t.Helper()
	config.NextProtos = []string{"http/1.1"} // HTTP/2 has no Connection header
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if method == "" {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(t.Context(), method, config.Host, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.URL.Path = path
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Audit-ID", auditID(name))
	for header, value := range headers {
		request.Header.Set(header, value)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// recordsOf reads an audit log, by audit id.
func recordsOf(t *testing.T, file string) map[string][]auditv1.Event {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	records := map[string][]auditv1.Event{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		records[string(event.AuditID)] = append(records[string(event.AuditID)], event)
	}
	return records
}
