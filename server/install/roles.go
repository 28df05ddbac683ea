// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kube-annex/annex/apis/features"
	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/node"
)

const (
	clusterClaimReader = "annex-clusterclaim-reader"

	read  = "get list watch"
	write = "create update patch delete deletecollection"
)

// userRoles are the default roles for users of the three APIs. What is cluster-scoped is reached through a
// ClusterRoleBinding of view, edit or admin only.
func (r Registration) userRoles() []Object {
	return []Object{
		// A role that is aggregated into view is part of edit and admin, too, and so on.
		r.clusterRole("annex-view", aggregateTo("view"),
			allow(read, features.GroupName, "features"),
			allow(read, multicluster.GroupName, "clusterclaims", "clusteridreservations"),
			allow(read, node.GroupName, "nodeballoons"),
		),
		r.clusterRole("annex-edit", aggregateTo("edit"),
			allow(write, features.GroupName, "features"),
		),
		r.clusterRole("annex-admin", aggregateTo("admin"),
			allow(write, multicluster.GroupName, "clusterclaims", "clusteridreservations"),
			allow(write, node.GroupName, "nodeballoons"),
			allow("get update patch", node.GroupName, "nodeballoons/resize"),
		),
		// Every workload may know which cluster it is in and which set that belongs to. A list needs a field selector for the name.
		r.clusterRole(clusterClaimReader, nil,
			named(allow(read, multicluster.GroupName, "clusterclaims"), "id.k8s.io", "clusterset.k8s.io"),
		),
		r.clusterRoleBinding(clusterClaimReader, clusterClaimReader,
			[]rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.AllAuthenticated}}),
		// For components that report their gates; bind it in the namespace of their features.
		r.clusterRole("annex-feature-reporter", nil,
			allow("create", features.GroupName, "featurereports"),
			allow(read, features.GroupName, "features"),
		),
		// For the clusters of a set, at their hub: each changes and deletes its own reservations alone, whatever this says.
		r.clusterRole("annex-clusterset-member", nil,
			allow("get list create update delete", multicluster.GroupName, "clusteridreservations"),
		),
		r.clusterRole("annex-node-autoscaler", nil,
			allow(read, node.GroupName, "nodeballoons"),
			allow("get update patch", node.GroupName, "nodeballoons/resize"),
		),
	}
}

// UserRoles returns the default roles for users, and their bindings, without the marks of a registration.
func UserRoles() []Object {
	objects := New().userRoles()
	for _, object := range objects {
		labels := object.GetLabels()
		delete(labels, ManagedByLabel)
		delete(labels, nameLabel)
	}
	return objects
}

func aggregateTo(role string) map[string]string {
	return map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + role: "true"}
}

// allow makes a rule; verbs are separated by spaces.
func allow(verbs, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: resources}
}

func named(rule rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

func (r Registration) clusterRole(name string, labels map[string]string, rules ...rbacv1.PolicyRule) Object {
	return &rbacv1.ClusterRole{TypeMeta: typeMeta(rbacv1.SchemeGroupVersion, "ClusterRole"), ObjectMeta: r.labelled(name, labels), Rules: rules}
}

func (r Registration) role(namespace, name string, rules ...rbacv1.PolicyRule) Object {
	return &rbacv1.Role{TypeMeta: typeMeta(rbacv1.SchemeGroupVersion, "Role"), ObjectMeta: r.namespaced(namespace, name), Rules: rules}
}

func (r Registration) clusterRoleBinding(name, role string, subjects []rbacv1.Subject) Object {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   typeMeta(rbacv1.SchemeGroupVersion, "ClusterRoleBinding"),
		ObjectMeta: r.metadata(name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   subjects,
	}
}

func (r Registration) roleBinding(namespace, name, role string) Object {
	return &rbacv1.RoleBinding{
		TypeMeta:   typeMeta(rbacv1.SchemeGroupVersion, "RoleBinding"),
		ObjectMeta: r.namespaced(namespace, name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   r.subjects(),
	}
}
