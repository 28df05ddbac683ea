// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rbac serves Role, ClusterRole, RoleBinding and ClusterRoleBinding.
//
// Nobody gives what he does not have: who writes a role or a binding must hold every right that it gives, unless he may escalate
// the role or bind it. That is judged by the roles and bindings as they are in the store, so that it counts what was written just
// before. What the rights allow is up to the authorizer; see server/controlplane/internal/rbac.
package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served and stored in.
var GroupVersion = rbacv1.SchemeGroupVersion

// Resources of the group.
const (
	roles               = "roles"
	clusterRoles        = "clusterroles"
	roleBindings        = "rolebindings"
	clusterRoleBindings = "clusterrolebindings"
)

// Kinds lists the kinds of the group. Whether a user may escalate or bind a role is judged by the authorizer.
func Kinds(access authorizer.Authorizer) []resource.Served {
	return []resource.Served{
		served(roleKind(), roleChecks(access), withoutColumns(roles)),
		served(clusterRoleKind(), clusterRoleChecks(access), withoutColumns(clusterRoles)),
		served(roleBindingKind(), roleBindingChecks(access), nil),
		served(clusterRoleBindingKind(), clusterRoleBindingChecks(access), nil),
	}
}

// served lists a kind whose writes are checked first. A nil table stands for the kind's own.
func served[T resource.Object](kind resource.Kind[T], c checks[T], table rest.TableConvertor) resource.Served {
	out := kind.Served()
	out.Install = func(group *resource.Group) error {
		if err := kind.Install(group); err != nil {
			return err
		}
		endpoint := group.Storage(kind.Plural).(*resource.REST)
		if table != nil {
			endpoint.TableConvertor = table
		}
		group.Add(kind.Plural, &checked[T]{REST: endpoint, checks: c, rights: rights{group}})
		return nil
	}
	return out
}

// withoutColumns is the table of kinds that show their names and when they were created.
func withoutColumns(plural string) rest.TableConvertor {
	return rest.NewDefaultTableConvertor(GroupVersion.WithResource(plural).GroupResource())
}

// validateName takes whatever can be a part of a path, such as system:basic-user.
func validateName(name string, _ bool) []string { return content.IsPathSegmentName(name) }
