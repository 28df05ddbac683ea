// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/cache"
)

// bySubject is the index of bindings: by the namespace that they are in and by whom they give rights.
const bySubject = "subject"

// subjectKeys implements cache.IndexFunc.
func subjectKeys(obj any) ([]string, error) {
	var subjects []rbacv1.Subject
	var namespace string
	switch binding := obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		subjects = binding.Subjects
	case *rbacv1.RoleBinding:
		subjects, namespace = binding.Subjects, binding.Namespace
	}
	keys := make([]string, 0, len(subjects))
	for _, subject := range subjects {
		if key := keyOf(subject, namespace); key != "" {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// keyOf returns under what a subject of a binding in the namespace is found; empty for nobody.
func keyOf(subject rbacv1.Subject, namespace string) string {
	switch subject.Kind {
	case rbacv1.UserKind:
		return userKey(namespace, subject.Name)
	case rbacv1.GroupKind:
		return groupKey(namespace, subject.Name)
	case rbacv1.ServiceAccountKind:
		of := subject.Namespace
		if of == "" {
			of = namespace
		}
		if of != "" {
			return userKey(namespace, serviceaccount.MakeUsername(of, subject.Name))
		}
	}
	return ""
}

// Names of namespaces have no slash, and names of users and groups may have any character.
func userKey(namespace, name string) string  { return namespace + "/u/" + name }
func groupKey(namespace, name string) string { return namespace + "/g/" + name }

// visitBindings passes on the bindings in the namespace that give rights to the user, until see returns false, and tells whether it
// never did. A binding of which the user is twice, as with two of his groups, may be passed on twice.
func visitBindings(bindings cache.Indexer, who user.Info, namespace string, see func(grant) bool) bool {
	if !visitKey(bindings, userKey(namespace, who.GetName()), namespace, see) {
		return false
	}
	for _, group := range who.GetGroups() {
		if !visitKey(bindings, groupKey(namespace, group), namespace, see) {
			return false
		}
	}
	return true
}

func visitKey(bindings cache.Indexer, key, namespace string, see func(grant) bool) bool {
	// The only error is that there is no such index.
	found, _ := bindings.ByIndex(bySubject, key)
	for _, obj := range found {
		g := grant{namespace: namespace}
		var subjects []rbacv1.Subject
		switch binding := obj.(type) {
		case *rbacv1.ClusterRoleBinding:
			g.binding, g.ref, subjects = binding.Name, binding.RoleRef, binding.Subjects
		case *rbacv1.RoleBinding:
			g.binding, g.ref, subjects = binding.Name, binding.RoleRef, binding.Subjects
		}
		for _, subject := range subjects {
			if keyOf(subject, namespace) == key {
				g.subject = subject
				break
			}
		}
		if !see(g) {
			return false
		}
	}
	return true
}
