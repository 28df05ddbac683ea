// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
)

func TestWhoIsAllowed(t *testing.T) {
	t.Parallel()
	a, _ := authorizerOf(t,
		clusterRole("reader", rule(of("get", "list"), of(""), of("configmaps"), nil)),
		clusterRole("everything", rule(of("*"), of("*"), of("*"), nil), rbacv1.PolicyRule{Verbs: of("*"), NonResourceURLs: of("*")}),
		clusterRole("paths", rbacv1.PolicyRule{Verbs: of("get"), NonResourceURLs: of("/healthz", "/apis/*", "/star*")}),
		clusterRole("scaler", rule(of("update"), of("*"), of("*/scale"), nil), rule(of("get"), of("apps"), of("sets/status"), nil)),
		clusterRole("one", rule(of("get", "create", "list"), of(""), of("secrets"), of("mine"))),
		role("a", "writer", rule(of("update"), of(""), of("configmaps"), nil)),
		everywhere("readers", "reader", team("readers"), person("carol")),
		everywhere("admins", "everything", team("admins")),
		everywhere("paths", "paths", person("prober")),
		everywhere("scalers", "scaler", person("scaler")),
		everywhere("one", "one", person("owner")),
		everywhere("robots", "reader", account("a", "robot"), account("", "nowhere")),
		everywhere("broken", "gone", person("broken")),
		within("a", "writers", "Role", "writer", person("carol"), account("", "local"), account("b", "foreign")),
		within("a", "readers-here", "ClusterRole", "reader", person("dave")),
		within("a", "readers-twice", "ClusterRole", "reader", person("carol")), // who is in the ClusterRoleBinding readers too, which is named
		within("b", "broken", "Role", "gone", person("broken")),
	)
	get := func(verb, namespace, resource, subresource, name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, Namespace: namespace, Resource: resource, Subresource: subresource, Name: name, ResourceRequest: true}
	}
	in := func(group string, a authorizer.AttributesRecord) authorizer.AttributesRecord {
		a.APIGroup = group
		return a
	}
	path := func(verb, path string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, Path: path}
	}
	read := get("list", "a", "configmaps", "", "")
	for name, tc := range map[string]struct {
		user   string
		groups []string
		asked  authorizer.AttributesRecord
		// want is the reason; why says that it is one for which nothing is allowed.
		want, why string
	}{
		"a user":                           {user: "carol", asked: read, want: `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to User "carol"`},
		"a group":                          {user: "x", groups: of("others", "readers"), asked: read, want: `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "readers"`},
		"everywhere":                       {user: "carol", asked: get("list", "", "configmaps", "", ""), want: `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to User "carol"`},
		"a stranger":                       {user: "mallory", groups: of("others"), asked: read},
		"a user with a group's name":       {user: "readers", asked: read},
		"a group with a user's name":       {user: "x", groups: of("carol"), asked: read},
		"another verb":                     {user: "x", groups: of("readers"), asked: get("watch", "a", "configmaps", "", "")},
		"another resource":                 {user: "x", groups: of("readers"), asked: get("get", "a", "secrets", "", "")},
		"another group of resources":       {user: "x", groups: of("readers"), asked: in("apps", read)},
		"a subresource of it":              {user: "x", groups: of("readers"), asked: get("get", "a", "configmaps", "status", "")},
		"everything, a resource":           {user: "x", groups: of("admins"), asked: in("x", get("delete", "y", "z", "sub", "n")), want: `RBAC: allowed by ClusterRoleBinding "admins" of ClusterRole "everything" to Group "admins"`},
		"everything, a path":               {user: "x", groups: of("admins"), asked: path("delete", "/x"), want: `RBAC: allowed by ClusterRoleBinding "admins" of ClusterRole "everything" to Group "admins"`},
		"a path":                           {user: "prober", asked: path("get", "/healthz"), want: `RBAC: allowed by ClusterRoleBinding "paths" of ClusterRole "paths" to User "prober"`},
		"a path below":                     {user: "prober", asked: path("get", "/healthz/etcd")},
		"a path under a star":              {user: "prober", asked: path("get", "/apis/a/b"), want: `RBAC: allowed by ClusterRoleBinding "paths" of ClusterRole "paths" to User "prober"`},
		"the path before the star's slash": {user: "prober", asked: path("get", "/apis")},
		"a path that begins like it":       {user: "prober", asked: path("get", "/starlight"), want: `RBAC: allowed by ClusterRoleBinding "paths" of ClusterRole "paths" to User "prober"`},
		"another verb on a path":           {user: "prober", asked: path("post", "/healthz")},
		"a path where resources are meant": {user: "x", groups: of("readers"), asked: path("get", "/configmaps")},
		"a subresource of all":             {user: "scaler", asked: in("apps", get("update", "a", "sets", "scale", "x")), want: `RBAC: allowed by ClusterRoleBinding "scalers" of ClusterRole "scaler" to User "scaler"`},
		"another subresource":              {user: "scaler", asked: in("apps", get("update", "a", "sets", "status", "x"))},
		"a resource that is called so":     {user: "scaler", asked: in("apps", get("update", "a", "scale", "", "x"))},
		"one subresource of one":           {user: "scaler", asked: in("apps", get("get", "a", "sets", "status", "x")), want: `RBAC: allowed by ClusterRoleBinding "scalers" of ClusterRole "scaler" to User "scaler"`},
		"the same without its subresource": {user: "scaler", asked: in("apps", get("get", "a", "sets", "", "x"))},
		"a name":                           {user: "owner", asked: get("get", "a", "secrets", "", "mine"), want: `RBAC: allowed by ClusterRoleBinding "one" of ClusterRole "one" to User "owner"`},
		"another name":                     {user: "owner", asked: get("get", "a", "secrets", "", "yours")},
		"no name":                          {user: "owner", asked: get("create", "a", "secrets", "", "")},
		"an account":                       {user: "system:serviceaccount:a:robot", asked: read, want: `RBAC: allowed by ClusterRoleBinding "robots" of ClusterRole "reader" to ServiceAccount "robot/a"`},
		"an account of another namespace":  {user: "system:serviceaccount:b:robot", asked: read},
		"an account without a namespace":   {user: "system:serviceaccount::nowhere", asked: read},
		"an account of the binding's own":  {user: "system:serviceaccount:a:local", asked: get("update", "a", "configmaps", "", "x"), want: `RBAC: allowed by RoleBinding "writers/a" of Role "writer" to ServiceAccount "local/a"`},
		"a foreign account":                {user: "system:serviceaccount:b:foreign", asked: get("update", "a", "configmaps", "", "x"), want: `RBAC: allowed by RoleBinding "writers/a" of Role "writer" to ServiceAccount "foreign/b"`},
		"here":                             {user: "carol", asked: get("update", "a", "configmaps", "", "x"), want: `RBAC: allowed by RoleBinding "writers/a" of Role "writer" to User "carol"`},
		"in another namespace":             {user: "carol", asked: get("update", "b", "configmaps", "", "x")},
		"in all at once":                   {user: "dave", asked: get("list", "", "configmaps", "", "")},
		"a role of all, here":              {user: "dave", asked: read, want: `RBAC: allowed by RoleBinding "readers-here/a" of ClusterRole "reader" to User "dave"`},
		"a role that is gone":              {user: "broken", asked: read, why: `RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`},
		"two roles that are gone": {
			user: "broken", asked: get("list", "b", "configmaps", "", ""),
			why: `RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.asked.User = &user.DefaultInfo{Name: tc.user, Groups: tc.groups}
			decision, reason, err := a.Authorize(t.Context(), tc.asked)
			want := authorizer.DecisionNoOpinion
			if tc.want != "" {
				want = authorizer.DecisionAllow
			}
			if err != nil || decision != want {
				t.Errorf("got decision %v, %q, %v, want %v", decision, reason, err, want)
			}
			if diff := cmp.Diff(tc.want+tc.why, reason); diff != "" {
				t.Errorf("reason (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestAnswersFollowTheBindings(t *testing.T) {
	t.Parallel()
	a, all := authorizerOf(t, clusterRole("reader", rule(of("get"), of(""), of("configmaps"), nil)))
	may := func() bool {
		decision, _, err := a.Authorize(t.Context(), authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "carol"}, Verb: "get", Resource: "configmaps", ResourceRequest: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		return decision == authorizer.DecisionAllow
	}
	bindings := all.ClusterRoleBindings().Informer().GetIndexer()
	for i, step := range []struct {
		do   func(any) error
		with any
		want bool
	}{
		{bindings.Add, everywhere("b", "reader", person("carol")), true},
		{bindings.Update, everywhere("b", "reader", person("dave")), false},
		{bindings.Update, everywhere("b", "reader", person("dave"), person("carol")), true},
		{bindings.Delete, everywhere("b", "reader"), false},
	} {
		if err := step.do(step.with); err != nil {
			t.Fatal(err)
		}
		if got := may(); got != step.want {
			t.Errorf("after step %d: allowed %t, want %t", i, got, step.want)
		}
	}
}

func TestRulesForAUser(t *testing.T) {
	t.Parallel()
	a, _ := authorizerOf(t,
		clusterRole("both", rule(of("get"), of(""), of("configmaps"), nil), rbacv1.PolicyRule{Verbs: of("get"), NonResourceURLs: of("/x")}),
		role("a", "local", rule(of("update"), of(""), of("configmaps"), of("mine"))),
		// Carol is in it three times, and has its rules once.
		everywhere("everywhere", "both", person("carol"), team("t1"), team("t2")),
		within("a", "here", "Role", "local", person("carol")),
		within("b", "there", "ClusterRole", "both", person("carol")),
		everywhere("broken", "gone", team("t1")),
	)
	who := &user.DefaultInfo{Name: "carol", Groups: of("t1", "t2")}
	resources, paths, incomplete, err := a.RulesFor(t.Context(), who, "a")
	if incomplete || err == nil || err.Error() != `clusterrole.rbac.authorization.k8s.io "gone" not found` {
		t.Errorf("got incomplete %t, %v", incomplete, err)
	}
	want := []authorizer.ResourceRuleInfo{
		&authorizer.DefaultResourceRuleInfo{Verbs: of("get"), APIGroups: of(""), Resources: of("configmaps")},
		&authorizer.DefaultResourceRuleInfo{Verbs: of("update"), APIGroups: of(""), Resources: of("configmaps"), ResourceNames: of("mine")},
	}
	if diff := cmp.Diff(want, resources); diff != "" {
		t.Errorf("rules about resources (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff([]authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: of("get"), NonResourceURLs: of("/x")}}, paths); diff != "" {
		t.Errorf("rules about paths (-want,+got):\n%s", diff)
	}
}

func TestQuestionsWaitUntilThereIsSomethingToAnswerBy(t *testing.T) {
	t.Parallel()
	ready := make(chan struct{})
	all := informers.NewSharedInformerFactory(nil, 0).Rbac().V1()
	a, err := New(all, ready)
	if err != nil {
		t.Fatal(err)
	}
	asked := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "carol"}, Verb: "get", Path: "/x"}

	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if decision, _, err := a.Authorize(hurried, asked); decision != authorizer.DecisionNoOpinion || !errors.Is(err, errUnread) {
		t.Errorf("before there is anything: got %v, %v", decision, err)
	}
	if _, _, incomplete, err := a.RulesFor(hurried, asked.User, ""); !incomplete || !errors.Is(err, errUnread) {
		t.Errorf("rules before there is anything: got incomplete %t, %v", incomplete, err)
	}
	answered := make(chan authorizer.Decision, 1)
	go func() {
		decision, _, _ := a.Authorize(t.Context(), asked)
		answered <- decision
	}()
	for _, object := range []any{
		clusterRole("paths", rbacv1.PolicyRule{Verbs: of("get"), NonResourceURLs: of("/x")}), everywhere("paths", "paths", person("carol")),
	} {
		if role, ok := object.(*rbacv1.ClusterRole); ok {
			err = all.ClusterRoles().Informer().GetIndexer().Add(role)
		} else {
			err = all.ClusterRoleBindings().Informer().GetIndexer().Add(object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	close(ready)
	if decision := <-answered; decision != authorizer.DecisionAllow {
		t.Errorf("asked before, answered after: got %v", decision)
	}
}

// TestQuestionsWaitNoLongerThanTheirPatience asks while the roles are being read, in a bubble, whose time passes at once.
func TestQuestionsWaitNoLongerThanTheirPatience(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		read time.Duration // when the roles have been read
		want error
		took time.Duration
	}{
		"read in time":  {9 * time.Second, nil, 9 * time.Second},
		"read too late": {11 * time.Second, errUnread, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ready := make(chan struct{})
				a, err := New(informers.NewSharedInformerFactory(nil, 0).Rbac().V1(), ready)
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(tc.read, func() { close(ready) })
				began := time.Now()
				_, _, err = a.Authorize(t.Context(), authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "carol"}, Verb: "get", Path: "/x"})
				if !errors.Is(err, tc.want) || time.Since(began) != tc.took {
					t.Errorf("got %v after %s, want %v after %s", err, time.Since(began), tc.want, tc.took)
				}
			})
		})
	}
}
