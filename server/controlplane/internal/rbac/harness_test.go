// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/tools/cache"
)

// authorizerOf returns one that has read the objects, and the informers that have them.
func authorizerOf(t testing.TB, objects ...runtime.Object) (*Authorizer, rbacinformers.Interface) {
	t.Helper()
	ready := make(chan struct{})
	close(ready)
	all := informers.NewSharedInformerFactory(nil, 0).Rbac().V1()
	a, err := New(all, ready)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := storeOf(all, object).Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return a, all
}

func storeOf(all rbacinformers.Interface, object runtime.Object) cache.Indexer {
	switch object.(type) {
	case *rbacv1.ClusterRole:
		return all.ClusterRoles().Informer().GetIndexer()
	case *rbacv1.ClusterRoleBinding:
		return all.ClusterRoleBindings().Informer().GetIndexer()
	case *rbacv1.Role:
		return all.Roles().Informer().GetIndexer()
	}
	return all.RoleBindings().Informer().GetIndexer()
}

func rule(verbs, groups, resources, names []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names}
}

func of(names ...string) []string { return names }

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

func everywhere(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func within(namespace, name, kind, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
	}
}

func person(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}
}

func team(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: name}
}

func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}
