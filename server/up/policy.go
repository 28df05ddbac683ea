// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/server/controlplane/controllers/bootstrappolicy"
	"github.com/kube-annex/annex/server/extension"
	"github.com/kube-annex/annex/server/registration"
)

// policy is what the parts of this process, and the users of the extension's kinds, may do on the host. The rules are those of a
// registration in any cluster; the server and the controllers are two users here, each with its own.
func policy() bootstrappolicy.Policy {
	server, controllers := bootstrappolicy.User(extensionUser), bootstrappolicy.User(controllersUser)
	p := bootstrappolicy.Policy{
		ClusterRoles: []*rbacv1.ClusterRole{
			bootstrappolicy.ClusterRole(extensionUser, append(registration.ServerRules(),
				// Both servers look after the conditions of flow schemas at the same time, when the process starts.
				bootstrappolicy.Allow("update patch", flowcontrolv1.GroupName, "flowschemas/status", "prioritylevelconfigurations/status"))...),
			registration.ParameterReader(),
			bootstrappolicy.ClusterRole(controllersUser, registration.ControllerRules()...),
		},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{
			bootstrappolicy.ClusterRoleBinding(extensionUser, server),
			bootstrappolicy.ClusterRoleBinding(registration.ParametersRole, server),
			bootstrappolicy.ClusterRoleBindingTo(bootstrappolicy.AuthDelegator, extensionUser+"-auth-delegator", server),
			bootstrappolicy.ClusterRoleBinding(controllersUser, controllers),
		},
		Roles: []*rbacv1.Role{
			bootstrappolicy.Role(extension.FeaturesNamespace, extensionUser, registration.FeatureLeaseRules()...),
			bootstrappolicy.Role(extension.FeaturesNamespace, controllersUser, append(registration.ControllerLeaseRules(), registration.ReportRules()...)...),
		},
		RoleBindings: []*rbacv1.RoleBinding{
			bootstrappolicy.RoleBinding(extension.FeaturesNamespace, extensionUser, extensionUser, server),
			bootstrappolicy.RoleBinding(extension.FeaturesNamespace, controllersUser, controllersUser, controllers),
			bootstrappolicy.RoleBinding(metav1.NamespaceSystem, bootstrappolicy.AuthenticationReader, extensionUser+"-authentication-reader", server),
		},
	}
	for _, object := range registration.UserRoles() {
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
	return registration.FlowSchemas("annex", registration.FlowUser(extensionUser), registration.FlowUser(controllersUser))
}
