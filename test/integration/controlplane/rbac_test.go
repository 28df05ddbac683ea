// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/controlplane"
)

func allow(verbs, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: resources}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func role(name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func toClusterRole(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

func toRole(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}
}

func clusterBinding(name string, ref rbacv1.RoleRef, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: subjects}
}

func binding(name string, ref rbacv1.RoleRef, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: subjects}
}

// grantTo gives a user rights everywhere, and waits until the server knows.
func grantTo(t *testing.T, admin kubernetes.Interface, who string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	name := "for-" + who
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), clusterRole(name, rules...), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), clusterBinding(name, toClusterRole(name), user(who)), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	last := rules[len(rules)-1]
	eventually(t, func() error {
		if !may(t, admin, who, last.Verbs[0], last.APIGroups[0], last.Resources[0]) {
			return fmt.Errorf("the server does not know yet what %s may do", who)
		}
		return nil
	})
}

func may(t *testing.T, admin kubernetes.Interface, who, verb, group, resource string) bool {
	t.Helper()
	review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: who, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

func TestNobodyGivesWhatHeDoesNotHave(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	admin := core(t, h.Admin())
	const group = rbacv1.GroupName
	rights := []rbacv1.PolicyRule{allow("get list", "", "secrets"), {Verbs: []string{"get"}, NonResourceURLs: []string{"/logs/*"}}}
	writeRoles := allow("create update patch get", group, "roles", "rolebindings", "clusterroles", "clusterrolebindings")
	grantTo(t, admin, "holder", append(rights, writeRoles)...)
	grantTo(t, admin, "writer", writeRoles)
	grantTo(t, admin, "escalator", allow("escalate", group, "roles", "clusterroles"), writeRoles)
	grantTo(t, admin, "binder", rbacv1.PolicyRule{
		Verbs: []string{"bind"}, APIGroups: []string{group}, Resources: []string{"clusterroles", "roles"}, ResourceNames: []string{"rich", "rich-here"},
	}, writeRoles)
	grantTo(t, admin, "everything", rbacv1.PolicyRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}, allow("*", "*", "*"))
	for _, role := range []*rbacv1.ClusterRole{clusterRole("rich", rights...), clusterRole("other", rights...), clusterRole("poor")} {
		if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.RbacV1().Roles("default").Create(t.Context(), role("rich-here", rights[0]), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	aggregated := clusterRole("aggregated")
	aggregated.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}

	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	create := map[string]func(context.Context, kubernetes.Interface) error{
		"a ClusterRole with rights": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().ClusterRoles().Create(ctx, clusterRole("new", rights...), dry)
			return err
		},
		"a ClusterRole by apply": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().ClusterRoles().Apply(ctx, applyrbacv1.ClusterRole("new").
				WithRules(applyrbacv1.PolicyRule().WithVerbs("get").WithAPIGroups("").WithResources("secrets")), metav1.ApplyOptions{FieldManager: "m", DryRun: dry.DryRun})
			return err
		},
		"a ClusterRole that gains rights": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().ClusterRoles().Patch(ctx, "poor", types.JSONPatchType,
				[]byte(`[{"op":"add","path":"/rules","value":[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]}]`), metav1.PatchOptions{DryRun: dry.DryRun})
			return err
		},
		"a ClusterRole that is labelled": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().ClusterRoles().Patch(ctx, "rich", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{DryRun: dry.DryRun})
			return err
		},
		"a ClusterRole that gets a finalizer": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().ClusterRoles().Patch(ctx, "rich", types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":["example.com/x"]}}`), metav1.PatchOptions{DryRun: dry.DryRun})
			return err
		},
		"an aggregated ClusterRole": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().ClusterRoles().Create(ctx, aggregated, dry)
			return err
		},
		"a Role with rights": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().Roles("default").Create(ctx, role("new", rights[0]), dry)
			return err
		},
		"a ClusterRoleBinding": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().ClusterRoleBindings().Create(ctx, clusterBinding("new", toClusterRole("rich"), user("x")), dry)
			return err
		},
		"a ClusterRoleBinding to another": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().ClusterRoleBindings().Create(ctx, clusterBinding("new", toClusterRole("other"), user("x")), dry)
			return err
		},
		"a RoleBinding to a ClusterRole": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().RoleBindings("default").Create(ctx, binding("new", toClusterRole("rich"), user("x")), dry)
			return err
		},
		"a RoleBinding to a Role": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().RoleBindings("default").Create(ctx, binding("new", toRole("rich-here"), user("x")), dry)
			return err
		},
		"a RoleBinding to nothing": func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.RbacV1().RoleBindings("default").Create(ctx, binding("new", toRole("gone"), user("x")), dry)
			return err
		},
	}
	const yes, no, gone = "", "Forbidden", "NotFound"
	want := map[string]map[string]string{
		// Only whoever may do everything aggregates, and only whoever may bind refers to a role that there is not.
		"everything": {"a RoleBinding to nothing": yes},
		"holder":     {"an aggregated ClusterRole": no, "a RoleBinding to nothing": gone},
		"escalator": {
			"a ClusterRoleBinding": no, "a ClusterRoleBinding to another": no, "a RoleBinding to a ClusterRole": no, "a RoleBinding to a Role": no,
			"a RoleBinding to nothing": gone,
		},
		"binder": {
			"a ClusterRole with rights": no, "a ClusterRole by apply": no, "a ClusterRole that gains rights": no, "a ClusterRole that is labelled": no,
			"an aggregated ClusterRole": no, "a Role with rights": no, "a ClusterRoleBinding to another": no, "a RoleBinding to nothing": gone,
		},
		"writer": {
			"a ClusterRole with rights": no, "a ClusterRole by apply": no, "a ClusterRole that gains rights": no, "a ClusterRole that is labelled": no,
			"an aggregated ClusterRole": no, "a Role with rights": no, "a ClusterRoleBinding": no, "a ClusterRoleBinding to another": no,
			"a RoleBinding to a ClusterRole": no, "a RoleBinding to a Role": no, "a RoleBinding to nothing": gone,
		},
	}
	for who, refused := range want {
		client := core(t, h.As(who))
		for what, do := range create {
			t.Run(who+" writes "+what, func(t *testing.T) {
				t.Parallel()
				got := string(apierrors.ReasonForError(do(t.Context(), client)))
				if got != refused[what] {
					t.Errorf("got %q, want %q", got, refused[what])
				}
			})
		}
	}
	_, err := core(t, h.As("writer", "team")).RbacV1().ClusterRoles().Create(t.Context(), clusterRole("new", rights...), metav1.CreateOptions{})
	wantMessage := `clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "writer" (groups=["team" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:
{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}
{NonResourceURLs:["/logs/*"], Verbs:["get"]}`
	if err == nil {
		t.Fatal("a role beyond its writer's rights was created")
	}
	if diff := cmp.Diff(wantMessage, err.Error()); diff != "" {
		t.Errorf("message (-want,+got):\n%s", diff)
	}
}

// TestRightsCountAtOnce has a user refer to what was written just before, which informers may not have seen.
func TestRightsCountAtOnce(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	admin := core(t, h.Admin())
	grantTo(t, admin, "newcomer", allow("*", rbacv1.GroupName, "*"), allow("*", "", "*"))
	newcomer := core(t, h.As("newcomer"))
	for i := range 20 {
		name := fmt.Sprintf("role-%d", i)
		if _, err := newcomer.RbacV1().Roles("default").Create(t.Context(), role(name, allow("get", "", "secrets")), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := newcomer.RbacV1().RoleBindings("default").Create(t.Context(), binding(name, toRole(name), user("x")), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBootstrapRolesAreBroughtBackAtStart(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	ctx, rbac := t.Context(), core(t, h.Admin()).RbacV1()
	patches := map[string]string{
		// What is missing comes back, and what was added stays.
		"system:basic-user":         `{"rules":[{"verbs":["get"],"apiGroups":["example.com"],"resources":["extras"]}],"metadata":{"labels":{"mine":"yes","kubernetes.io/bootstrapping":null}}}`,
		"system:public-info-viewer": `{"rules":[],"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}`,
	}
	for name, patch := range patches {
		if _, err := rbac.ClusterRoles().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rbac.ClusterRoleBindings().Patch(ctx, "system:basic-user", types.MergePatchType,
		[]byte(`{"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"guest"}]}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Patch(ctx, "system:monitoring", types.MergePatchType,
		[]byte(`{"subjects":[],"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"system:discovery", "cluster-admin"} {
		if err := rbac.ClusterRoles().Delete(ctx, gone, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// A binding cannot be pointed at another role; it is made anew.
	if err := rbac.ClusterRoleBindings().Delete(ctx, "system:discovery", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(ctx, clusterBinding("system:discovery", toClusterRole("view"), user("guest")), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := rbac.Roles("kube-system").Delete(ctx, "extension-apiserver-authentication-reader", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.Stop()
	h.Start()
	rbac = core(t, h.Admin()).RbacV1()
	basic, err := rbac.ClusterRoles().Get(ctx, "system:basic-user", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{
		allow("get", "example.com", "extras"),
		allow("create", "authorization.k8s.io", "selfsubjectaccessreviews"), allow("create", "authorization.k8s.io", "selfsubjectrulesreviews"),
		allow("create", "authentication.k8s.io", "selfsubjectreviews"),
	}
	if diff := cmp.Diff(want, basic.Rules); diff != "" {
		t.Errorf("rules of a role that was changed (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"mine": "yes", "kubernetes.io/bootstrapping": "rbac-defaults"}, basic.Labels); diff != "" {
		t.Errorf("labels of a role that was changed (-want,+got):\n%s", diff)
	}
	if kept, err := rbac.ClusterRoles().Get(ctx, "system:public-info-viewer", metav1.GetOptions{}); err != nil || len(kept.Rules) != 0 {
		t.Errorf("a role that is not to be updated: %v, %v", kept, err)
	}
	if kept, err := rbac.ClusterRoleBindings().Get(ctx, "system:monitoring", metav1.GetOptions{}); err != nil || len(kept.Subjects) != 0 {
		t.Errorf("a binding that is not to be updated: %v, %v", kept, err)
	}
	for name, want := range map[string]struct {
		ref      rbacv1.RoleRef
		subjects []rbacv1.Subject
	}{
		"system:basic-user": {toClusterRole("system:basic-user"), []rbacv1.Subject{user("guest"), {APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:authenticated"}}},
		"system:discovery":  {toClusterRole("system:discovery"), []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:authenticated"}}},
	} {
		got, err := rbac.ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.subjects, got.Subjects); diff != "" || got.RoleRef != want.ref {
			t.Errorf("%s refers to %v, subjects (-want,+got):\n%s", name, got.RoleRef, diff)
		}
	}
	for _, back := range []string{"system:discovery", "cluster-admin"} {
		if _, err := rbac.ClusterRoles().Get(ctx, back, metav1.GetOptions{}); err != nil {
			t.Errorf("a role that was deleted: %v", err)
		}
	}
	if _, err := rbac.Roles("kube-system").Get(ctx, "extension-apiserver-authentication-reader", metav1.GetOptions{}); err != nil {
		t.Errorf("a role that was deleted: %v", err)
	}
}

func TestRolesAreAggregated(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	ctx, admin := t.Context(), core(t, h.Admin())
	roles := admin.RbacV1().ClusterRoles()
	// Roles of the start have their rules from the start: nobody has to lead for that.
	if got, err := roles.Get(ctx, "admin", metav1.GetOptions{}); err != nil || len(got.Rules) < 10 {
		t.Errorf("the role admin of a server that is ready: %d rules, %v", len(got.Rules), err)
	}
	sum := clusterRole("sum", allow("get", "", "stale"))
	sum.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"part": "yes"}}}}
	if _, err := roles.Create(ctx, sum, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rules := func(want ...rbacv1.PolicyRule) {
		t.Helper()
		eventually(t, func() error {
			got, err := roles.Get(ctx, "sum", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if diff := cmp.Diff(want, got.Rules); diff != "" {
				return fmt.Errorf("rules (-want,+got):\n%s", diff)
			}
			return nil
		})
	}
	rules()
	for _, name := range []string{"part-b", "part-a"} {
		part := clusterRole(name, allow("get", "", name))
		part.Labels = map[string]string{"part": "yes", "rbac.authorization.k8s.io/aggregate-to-view": "true"}
		if _, err := roles.Create(ctx, part, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rules(allow("get", "", "part-a"), allow("get", "", "part-b"))
	// Through view and edit it comes to admin.
	eventually(t, func() error {
		got, err := roles.Get(ctx, "admin", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, rule := range got.Rules {
			if len(rule.Resources) == 1 && rule.Resources[0] == "part-a" {
				return nil
			}
		}
		return fmt.Errorf("admin lacks the rules of a part of view")
	})
	if err := roles.Delete(ctx, "part-a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rules(allow("get", "", "part-b"))
	if _, err := roles.Patch(ctx, "part-b", types.MergePatchType, []byte(`{"metadata":{"labels":{"part":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	rules()
	// Once nothing is aggregated, the rules are whoever writes them.
	if _, err := roles.Patch(ctx, "sum", types.MergePatchType, []byte(`{"aggregationRule":null,"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["own"]}]}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := roles.Delete(ctx, "part-b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rules(allow("get", "", "own"))
}

// TestWithoutRolesOnlyAuthorizersInCodeDecide switches the group off.
func TestWithoutRolesOnlyAuthorizersInCodeDecide(t *testing.T) {
	t.Parallel()
	h := startHost(t, func(o *controlplane.Options) { o.DisabledResources = []schema.GroupResource{{Group: rbacv1.GroupName}} })
	if _, err := core(t, h.As("somebody")).Discovery().ServerVersion(); !apierrors.IsForbidden(err) {
		t.Errorf("somebody: got %v, want 403", err)
	}
	admin := core(t, h.Admin())
	if _, err := admin.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("an administrator: %v", err)
	}
	if status, _ := send(t, h.With(pki.Pair{}), "GET", h.URL+"/readyz", "", nil); status != 200 {
		t.Errorf("a probe gets %d", status)
	}
	// Controllers act as the server itself then.
	eventually(t, func() error {
		_, err := admin.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}
