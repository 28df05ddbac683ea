// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
)

// crowd has n bindings of users to roles of their own, half of them everywhere and half in a namespace.
func crowd(t testing.TB, n int) (*Authorizer, rbacinformers.Interface) {
	objects := []runtime.Object{clusterRole("reader", rule(of("get"), of(""), of("configmaps"), nil))}
	for i := range n / 2 {
		name := fmt.Sprintf("user-%d", i)
		objects = append(objects, everywhere(name, "reader", person(name)), within("a", name, "ClusterRole", "reader", person(name+"-here"), account("", name)))
	}
	return authorizerOf(t, objects...)
}

func question(who string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: who, Groups: of("team", "system:authenticated")},
		Verb: "get", Namespace: "a", Resource: "configmaps", Name: "x", ResourceRequest: true,
	}
}

// scan asks every binding in turn, as an authorizer without an index has to.
func scan(all rbacinformers.Interface, asked authorizer.Attributes) bool {
	found := false
	see := func(namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if found {
			return
		}
		for _, subject := range subjects {
			who := subject.Kind == rbacv1.UserKind && subject.Name == asked.GetUser().GetName()
			for _, group := range asked.GetUser().GetGroups() {
				who = who || subject.Kind == rbacv1.GroupKind && subject.Name == group
			}
			if !who {
				continue
			}
			if role, err := all.ClusterRoles().Lister().Get(ref.Name); err == nil && allows(&role.Rules[0], asked) {
				found = true
			}
		}
	}
	everywhere, _ := all.ClusterRoleBindings().Lister().List(labels.Everything())
	for _, binding := range everywhere {
		see("", binding.RoleRef, binding.Subjects)
	}
	here, _ := all.RoleBindings().Lister().RoleBindings(asked.GetNamespace()).List(labels.Everything())
	for _, binding := range here {
		see(binding.Namespace, binding.RoleRef, binding.Subjects)
	}
	return found
}

// TestTheIndexIsWorthIt compares both in one run, so that the machine does not matter. A user who is refused makes both look at all
// that there is.
func TestTheIndexIsWorthIt(t *testing.T) {
	const bindings = 1000
	a, all := crowd(t, bindings)
	asked := question("nobody")
	if decision, _, _ := a.Authorize(t.Context(), question("user-7")); decision != authorizer.DecisionAllow || !scan(all, question("user-7")) {
		t.Fatal("both have to allow what they are compared by")
	}
	byIndex := each(func() { _, _, _ = a.Authorize(t.Context(), asked) })
	byScan := each(func() { scan(all, asked) })
	ratio := float64(byScan) / float64(byIndex)
	t.Logf("%d bindings: %s by the index, %s by a scan, %.0f times as fast", bindings, byIndex, byScan, ratio)
	if ratio < 10 {
		t.Errorf("the index is %.1f times as fast as a scan, want at least 10 times", ratio)
	}
}

// each returns what one of many takes.
func each(f func()) time.Duration {
	const many = 5000
	began := time.Now()
	for range many {
		f()
	}
	return time.Since(began) / many
}

func BenchmarkAuthorize(b *testing.B) {
	for _, bindings := range []int{10, 1000, 10000} {
		a, _ := crowd(b, bindings)
		for name, asked := range map[string]authorizer.AttributesRecord{"allowed": question("user-3"), "refused": question("nobody")} {
			b.Run(fmt.Sprintf("%s/%d", name, bindings), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_, _, _ = a.Authorize(b.Context(), asked)
				}
			})
		}
	}
}
