// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrappolicy

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/clusterroleaggregation"
)

const (
	// bootstrappingLabel marks what a control plane has from the start, as in every Kubernetes cluster.
	bootstrappingLabel = "kubernetes.io/bootstrapping"
	bootstrappingValue = "rbac-defaults"
)

// Policy is roles and bindings that there are from the start.
type Policy struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
}

// And returns the objects of both.
func (p Policy) And(more Policy) Policy {
	return Policy{
		ClusterRoles:        slices.Concat(p.ClusterRoles, more.ClusterRoles),
		ClusterRoleBindings: slices.Concat(p.ClusterRoleBindings, more.ClusterRoleBindings),
		Roles:               slices.Concat(p.Roles, more.Roles),
		RoleBindings:        slices.Concat(p.RoleBindings, more.RoleBindings),
	}
}

// marked returns copies of the objects with the label and the annotation of what is kept up to date.
func (p Policy) marked() Policy {
	out := Policy{}
	for _, role := range p.ClusterRoles {
		out.ClusterRoles = append(out.ClusterRoles, mark(role.DeepCopy()))
	}
	for _, binding := range p.ClusterRoleBindings {
		out.ClusterRoleBindings = append(out.ClusterRoleBindings, mark(binding.DeepCopy()))
	}
	for _, role := range p.Roles {
		out.Roles = append(out.Roles, mark(role.DeepCopy()))
	}
	for _, binding := range p.RoleBindings {
		out.RoleBindings = append(out.RoleBindings, mark(binding.DeepCopy()))
	}
	return out
}

func mark[T metav1.ObjectMetaAccessor](obj T) T {
	meta := obj.GetObjectMeta().(*metav1.ObjectMeta)
	metav1.SetMetaDataLabel(meta, bootstrappingLabel, bootstrappingValue)
	metav1.SetMetaDataAnnotation(meta, rbacv1.AutoUpdateAnnotationKey, "true")
	return obj
}

// aggregated returns the rules that the aggregated roles among them come to have, by name: they are created with them, and nobody
// has to wait for their aggregation.
func (p Policy) aggregated() (map[string][]rbacv1.PolicyRule, error) {
	var roles []*rbacv1.ClusterRole
	for _, role := range p.ClusterRoles {
		roles = append(roles, role.DeepCopy())
	}
	found := map[string][]rbacv1.PolicyRule{}
	for before := -1; before != count(found); {
		before = count(found)
		// A role may select one that is aggregated itself.
		for _, role := range roles {
			if role.AggregationRule == nil {
				continue
			}
			rules, err := clusterroleaggregation.Aggregate(role, roles)
			if err != nil {
				return nil, err
			}
			role.Rules, found[role.Name] = rules, rules
		}
	}
	return found, nil
}

func count(rules map[string][]rbacv1.PolicyRule) int {
	n := 0
	for _, of := range rules {
		n += 1 + len(of)
	}
	return n
}

// Allow makes a rule about resources; verbs are separated by spaces.
func Allow(verbs, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: resources}
}

// AllowPaths makes a rule about paths; verbs are separated by spaces.
func AllowPaths(verbs string, paths ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: paths}
}

// ClusterRole makes a role.
func ClusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

// ClusterRoleBinding gives the rights of the ClusterRole of the same name.
func ClusterRoleBinding(name string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return ClusterRoleBindingTo(name, name, subjects...)
}

// ClusterRoleBindingTo gives the rights of a ClusterRole of another name.
func ClusterRoleBindingTo(role, name string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   subjects,
	}
}

// Role makes a role in a namespace.
func Role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

// RoleBinding gives the rights of a Role of the namespace.
func RoleBinding(namespace, role, name string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   subjects,
	}
}

// User is a subject.
func User(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// Group is a subject.
func Group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}
