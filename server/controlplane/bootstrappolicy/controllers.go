// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrappolicy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// InformersAccount is the service account, in kube-system, that reads what controllers share.
	InformersAccount = "shared-informers"

	// controllerPrefix is before the name of a controller's account in the names of its roles, as in every Kubernetes cluster.
	controllerPrefix = "system:controller:"

	apiextensions   = "apiextensions.k8s.io"
	apiregistration = "apiregistration.k8s.io"
)

// controllers are roles for each of the controllers that run in one replica at a time, and bindings to their accounts in kube-system.
// What all of them follow is read by an account for that alone, so that most need to read nothing themselves.
func controllers() Policy {
	p := Policy{}
	for account, rules := range map[string][]rbacv1.PolicyRule{
		InformersAccount: {
			Allow("list watch", corev1.GroupName, "namespaces", "resourcequotas", "serviceaccounts"),
			Allow("list watch", admissionregistrationv1.GroupName, "validatingadmissionpolicies"),
			Allow("list watch", apiregistration, "apiservices"),
			Allow("list watch", certificatesv1.GroupName, "certificatesigningrequests"),
			Allow("list watch", flowcontrolv1.GroupName, "flowschemas", "prioritylevelconfigurations"),
			Allow("list watch", rbacv1.GroupName, "clusterroles"),
			Allow("list watch", storagemigrationv1.GroupName, "storageversionmigrations"),
		},
		"remote-availability":  {Allow("update", apiregistration, "apiservices/status")},
		"flow-control-objects": {Allow("create update", flowcontrolv1.GroupName, "flowschemas", "prioritylevelconfigurations")},
		"namespace-controller": {
			Allow("get", corev1.GroupName, "namespaces"),
			Allow("update", corev1.GroupName, "namespaces/finalize", "namespaces/status"),
			Allow("list delete deletecollection", rbacv1.APIGroupAll, rbacv1.ResourceAll),
		},
		"service-account-controller": {Allow("create", corev1.GroupName, "serviceaccounts")},
		"root-ca-cert-publisher": {
			// The name of what is created is not known yet when it is asked who may.
			Allow("create", corev1.GroupName, "configmaps"),
			named(Allow("list watch update", corev1.GroupName, "configmaps"), "kube-root-ca.crt"),
		},
		"tokens-controller": {
			// Rules cannot tell secrets with tokens from others.
			Allow("get list watch update delete", corev1.GroupName, "secrets"),
			Allow("get update", corev1.GroupName, "serviceaccounts"),
		},
		"generic-garbage-collector": {Allow("get list watch patch delete", rbacv1.APIGroupAll, rbacv1.ResourceAll)},
		"certificate-controller": {
			Allow("update", certificatesv1.GroupName, "certificatesigningrequests/status"),
			named(Allow("sign", certificatesv1.GroupName, "signers"), certificatesv1.KubeAPIServerClientSignerName),
		},
		"certificate-cleaner": {Allow("delete", certificatesv1.GroupName, "certificatesigningrequests")},
		"resourcequota-controller": {
			Allow("list watch", rbacv1.APIGroupAll, rbacv1.ResourceAll),
			Allow("update", corev1.GroupName, "resourcequotas/status"),
		},
		"storage-version-migrator-controller": {
			Allow("list patch", rbacv1.APIGroupAll, rbacv1.ResourceAll),
			Allow("get", apiextensions, "customresourcedefinitions"),
			Allow("update", apiextensions, "customresourcedefinitions/status"),
			Allow("get", storagemigrationv1.GroupName, "storageversionmigrations"),
			Allow("update", storagemigrationv1.GroupName, "storageversionmigrations/status"),
		},
		"validatingadmissionpolicy-status-controller": {Allow("patch", admissionregistrationv1.GroupName, "validatingadmissionpolicies/status")},
		// It writes rules that it does not have itself.
		"clusterrole-aggregation-controller": {Allow("escalate update", rbacv1.GroupName, "clusterroles")},
	} {
		p.ClusterRoles = append(p.ClusterRoles, ClusterRole(controllerPrefix+account, rules...))
		p.ClusterRoleBindings = append(p.ClusterRoleBindings, ClusterRoleBinding(controllerPrefix+account, controllerAccount(account)))
	}
	// Leases of replicas are in kube-system alone.
	const identities = "expired-identities"
	p.Roles = append(p.Roles, Role(metav1.NamespaceSystem, controllerPrefix+identities, Allow("list delete", coordinationv1.GroupName, "leases")))
	p.RoleBindings = append(p.RoleBindings,
		RoleBinding(metav1.NamespaceSystem, controllerPrefix+identities, controllerPrefix+identities, controllerAccount(identities)))
	return p
}

func controllerAccount(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}
}
