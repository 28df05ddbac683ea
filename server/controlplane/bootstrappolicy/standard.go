// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrappolicy

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	read      = "get list watch"
	write     = "create update patch delete deletecollection"
	readWrite = read + " " + write

	// AuthDelegator is the ClusterRole of servers that have users authenticated and authorized here.
	AuthDelegator = "system:auth-delegator"
	// AuthenticationReader is the Role, in kube-system, of servers that read whom to trust.
	AuthenticationReader = "extension-apiserver-authentication-reader"

	kubeAggregator = "system:kube-aggregator"
	issuerReader   = "system:service-account-issuer-discovery"

	aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"
)

// Standard is what every control plane has of the roles and bindings of a Kubernetes cluster: those about kinds that are served here,
// by the same names. Controllers have less in them, as far as they do less here.
func Standard() Policy {
	return Policy{
		ClusterRoles: append(userRoles(), systemRoles()...),
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{
			ClusterRoleBinding("cluster-admin", Group(user.SystemPrivilegedGroup)),
			ClusterRoleBinding("system:monitoring", Group(user.MonitoringGroup)),
			ClusterRoleBinding("system:discovery", Group(user.AllAuthenticated)),
			ClusterRoleBinding("system:basic-user", Group(user.AllAuthenticated)),
			ClusterRoleBinding("system:public-info-viewer", Group(user.AllAuthenticated), Group(user.AllUnauthenticated)),
			ClusterRoleBinding(issuerReader, Group(serviceaccount.AllServiceAccountsGroup)),
			// As these the aggregator reads what extension servers serve; they ask here whether it may.
			ClusterRoleBinding(kubeAggregator, User("system:aggregator"), User(kubeAggregator)),
		},
		Roles: []*rbacv1.Role{
			Role(metav1.NamespaceSystem, AuthenticationReader, named(Allow(read, corev1.GroupName, "configmaps"), "extension-apiserver-authentication")),
		},
	}.And(controllers())
}

// userRoles are for people: administrators, and who works in a namespace.
func userRoles() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		ClusterRole("cluster-admin", Allow("*", "*", "*"), AllowPaths("*", "*")),
		aggregating("admin"),
		labelled(aggregating("edit"), aggregateTo+"admin"),
		labelled(aggregating("view"), aggregateTo+"edit"),
		labelled(ClusterRole("system:aggregate-to-admin",
			Allow("create", authorizationv1.GroupName, "localsubjectaccessreviews"),
			Allow(readWrite, rbacv1.GroupName, "roles", "rolebindings"),
		), aggregateTo+"admin"),
		labelled(ClusterRole("system:aggregate-to-edit",
			Allow(read, corev1.GroupName, "secrets"),
			Allow("impersonate", corev1.GroupName, "serviceaccounts"),
			Allow(write, corev1.GroupName, "serviceaccounts", "configmaps", "secrets"),
			Allow("create", corev1.GroupName, "serviceaccounts/token"),
			events(write),
			Allow(readWrite, coordinationv1.GroupName, "leases"),
		), aggregateTo+"edit"),
		labelled(ClusterRole("system:aggregate-to-view",
			Allow(read, corev1.GroupName, "serviceaccounts", "configmaps"),
			Allow(read, corev1.GroupName, "resourcequotas", "resourcequotas/status", "namespaces/status"),
			// Who may read namespaces in a namespace may read that one.
			Allow(read, corev1.GroupName, "namespaces"),
			events(read),
		), aggregateTo+"view"),
		ClusterRole("system:basic-user",
			Allow("create", authorizationv1.GroupName, "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
			Allow("create", authenticationv1.GroupName, "selfsubjectreviews"),
		),
	}
}

// systemRoles are for programs, and for everybody.
func systemRoles() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		ClusterRole("system:discovery",
			AllowPaths("get", "/livez", "/readyz", "/healthz", "/version", "/version/", "/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*")),
		ClusterRole("system:public-info-viewer", AllowPaths("get", "/livez", "/readyz", "/healthz", "/version", "/version/")),
		ClusterRole("system:monitoring",
			AllowPaths("get", "/metrics", "/metrics/slis", "/livez", "/readyz", "/healthz", "/livez/*", "/readyz/*", "/healthz/*")),
		ClusterRole(issuerReader,
			AllowPaths("get", "/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/")),
		ClusterRole(AuthDelegator,
			Allow("create", authenticationv1.GroupName, "tokenreviews"),
			Allow("create", authorizationv1.GroupName, "subjectaccessreviews"),
		),
		// Kubernetes' has Services and their endpoints here, which this control plane does without.
		ClusterRole(kubeAggregator, AllowPaths("get", "/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*")),
		ClusterRole("system:certificates.k8s.io:kube-apiserver-client-approver",
			named(Allow("approve", certificatesv1.GroupName, "signers"), certificatesv1.KubeAPIServerClientSignerName)),
	}
}

func aggregating(name string) *rbacv1.ClusterRole {
	role := ClusterRole(name)
	role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregateTo + name: "true"}}}}
	return role
}

func labelled(role *rbacv1.ClusterRole, label string) *rbacv1.ClusterRole {
	metav1.SetMetaDataLabel(&role.ObjectMeta, label, "true")
	return role
}

func named(rule rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

// events are of two groups with the same objects.
func events(verbs string) rbacv1.PolicyRule {
	rule := Allow(verbs, corev1.GroupName, "events")
	rule.APIGroups = append(rule.APIGroups, eventsv1.GroupName)
	return rule
}
