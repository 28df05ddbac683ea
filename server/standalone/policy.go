// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/server/controlplane/bootstrappolicy"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/install"
)

// policy is what the parts of this process, and the users of the extension's kinds, may do on the host. The rules are those of a
// registration in any cluster; the server and the controllers are two users here, each with its own.
func policy() bootstrappolicy.Policy {
	server, controllers := bootstrappolicy.User(extensionUser), bootstrappolicy.User(controllersUser)
	p := bootstrappolicy.Policy{
		ClusterRoles: []*rbacv1.ClusterRole{
			bootstrappolicy.ClusterRole(extensionUser, append(install.ServerRules(),
				// Both servers look after the conditions of flow schemas at the same time, when the process starts.
				bootstrappolicy.Allow("update patch", flowcontrolv1.GroupName, "flowschemas/status", "prioritylevelconfigurations/status"))...),
			install.ParameterReader(),
			bootstrappolicy.ClusterRole(controllersUser, install.ControllerRules()...),
		},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{
			bootstrappolicy.ClusterRoleBinding(extensionUser, server),
			bootstrappolicy.ClusterRoleBinding(install.ParametersRole, server),
			bootstrappolicy.ClusterRoleBindingTo(bootstrappolicy.AuthDelegator, extensionUser+"-auth-delegator", server),
			bootstrappolicy.ClusterRoleBinding(controllersUser, controllers),
		},
		Roles: []*rbacv1.Role{
			bootstrappolicy.Role(gates.Namespace, extensionUser, install.FeatureLeaseRules()...),
			bootstrappolicy.Role(gates.Namespace, controllersUser, append(install.ControllerLeaseRules(), install.ReportRules()...)...),
		},
		RoleBindings: []*rbacv1.RoleBinding{
			bootstrappolicy.RoleBinding(gates.Namespace, extensionUser, extensionUser, server),
			bootstrappolicy.RoleBinding(gates.Namespace, controllersUser, controllersUser, controllers),
			bootstrappolicy.RoleBinding(metav1.NamespaceSystem, bootstrappolicy.AuthenticationReader, extensionUser+"-authentication-reader", server),
		},
	}
	for _, object := range install.UserRoles() {
		switch typed := object.(type) {
		case *rbacv1.ClusterRole:
			p.ClusterRoles = append(p.ClusterRoles, typed)
		case *rbacv1.ClusterRoleBinding:
			p.ClusterRoleBindings = append(p.ClusterRoleBindings, typed)
		}
	}
	return p
}

// flowSchemas say how urgent the requests of this process's parts are to the host. Where the parts run by themselves and the host is
// another process, `annex register` brings the like.
func flowSchemas() []*flowcontrolv1.FlowSchema {
	return install.FlowSchemas("annex", install.FlowUser(extensionUser), install.FlowUser(controllersUser))
}
