// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrappolicy

import (
	"context"
	"errors"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/auth/rbac/validation"
)

func TestStandardIsWhole(t *testing.T) {
	t.Parallel()
	p := Standard()
	names := map[string]bool{}
	for _, role := range p.ClusterRoles {
		if names[role.Name] {
			t.Errorf("there are two ClusterRoles %s", role.Name)
		}
		names[role.Name] = true
	}
	for _, binding := range p.ClusterRoleBindings {
		if !names[binding.RoleRef.Name] {
			t.Errorf("ClusterRoleBinding %s refers to the ClusterRole %s, which there is not", binding.Name, binding.RoleRef.Name)
		}
	}
	for _, role := range p.marked().ClusterRoles {
		if role.Labels["kubernetes.io/bootstrapping"] != "rbac-defaults" || role.Annotations["rbac.authorization.kubernetes.io/autoupdate"] != "true" {
			t.Errorf("ClusterRole %s is not marked as what is kept up to date", role.Name)
		}
	}
	if again := Standard().ClusterRoles[0]; len(again.Labels) > 0 {
		t.Errorf("marking changed what was given: %v", again.Labels)
	}
}

func TestAggregatedRolesAreCreatedWithTheirRules(t *testing.T) {
	t.Parallel()
	rules, err := Standard().aggregated()
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string][]rbacv1.PolicyRule{}
	for _, role := range Standard().ClusterRoles {
		roles[role.Name] = role.Rules
	}
	for name, parts := range map[string][]string{
		"view":  {"system:aggregate-to-view"},
		"edit":  {"system:aggregate-to-view", "system:aggregate-to-edit"},
		"admin": {"system:aggregate-to-view", "system:aggregate-to-edit", "system:aggregate-to-admin"},
	} {
		var want []rbacv1.PolicyRule
		for _, part := range parts {
			want = append(want, roles[part]...)
		}
		if covers, missing := validation.Covers(rules[name], want); !covers {
			t.Errorf("%s lacks %v", name, missing)
		}
		if covers, more := validation.Covers(want, rules[name]); !covers {
			t.Errorf("%s has more than its parts: %v", name, more)
		}
	}
}

// TestFailuresAreOvercome has another replica create an object, the store refuse one, and an administrator protect one.
func TestFailuresAreOvercome(t *testing.T) {
	t.Parallel()
	protected := ClusterRole("protected")
	metav1.SetMetaDataAnnotation(&protected.ObjectMeta, rbacv1.AutoUpdateAnnotationKey, "false")
	client := fake.NewClientset(protected)
	refusals := 3
	client.PrependReactor("create", "clusterroles", func(action clienttesting.Action) (bool, runtime.Object, error) {
		role := action.(clienttesting.CreateAction).GetObject().(*rbacv1.ClusterRole)
		switch {
		case role.Name == "refused" && refusals > 0:
			refusals--
			return true, nil, errors.New("not now")
		case role.Name == "raced":
			// Somebody else was faster.
			if err := client.Tracker().Add(role); err != nil {
				return true, nil, err
			}
		}
		return false, nil, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	rule := Allow("get", "", "secrets")
	c, err := New(client.RbacV1(), factory.Rbac().V1(), Policy{ClusterRoles: []*rbacv1.ClusterRole{
		ClusterRole("refused", rule), ClusterRole("raced", rule), ClusterRole("protected", rule), ClusterRole("plain", rule),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Check(nil) == nil {
		t.Error("ready before it has run")
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	exist := make(chan struct{})
	close(exist)
	c.Run(ctx, exist)
	if err := c.Check(nil); err != nil {
		t.Error(err)
	}
	all, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range all.Items {
		if has := slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return r.Resources[0] == "secrets" }); has == (role.Name == "protected") {
			t.Errorf("%s has the rule: %t", role.Name, has)
		}
	}
	if len(all.Items) != 4 || refusals != 0 {
		t.Errorf("got %d roles, %d refusals left", len(all.Items), refusals)
	}
}
