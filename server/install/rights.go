// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/kube-annex/annex/apis/features"
	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/server/extension"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/internal/admission"
)

const (
	authDelegator        = "system:auth-delegator"
	authenticationReader = "extension-apiserver-authentication-reader"
	controllersRole      = "annex-controllers"
	// lifecycleRole lets a server that turns features on and off see which other servers and which reporters there are.
	lifecycleRole = "annex-feature-lifecycle"
)

// serverRights is what the server itself may do in the cluster.
func (r Registration) serverRights() []Object {
	name := r.Service.Name
	return []Object{
		r.clusterRole(name, nil, ServerRules()...),
		r.clusterRoleBinding(name, name, r.subjects()),
		r.parameterReader(),
		r.clusterRoleBinding(ParametersRole, ParametersRole, r.subjects()),
		r.clusterRoleBinding(name+"-auth-delegator", authDelegator, r.subjects()),
		r.role(r.Service.Namespace, name, named(allow("get update", corev1.GroupName, "secrets"), r.Service.AuthoritySecret())),
		r.roleBinding(r.Service.Namespace, name, name),
		r.roleBinding(metav1.NamespaceSystem, name+"-authentication-reader", authenticationReader),
		// Replicas know each other, and who reports features, by Leases in annex-system. Servers of others have Leases in the namespaces of
		// their features; the role is bound to read them in those of --features, by hand.
		r.clusterRole(lifecycleRole, nil, allow(read, coordinationv1.GroupName, "leases")),
		r.role(gates.Namespace, name+"-feature-leases", FeatureLeaseRules()...),
		r.roleBinding(gates.Namespace, name+"-feature-leases", name+"-feature-leases"),
	}
}

// retired is what former releases have put into the cluster besides: the server was bound to a role by which it wrote Leases.
func (r Registration) retired() []Object {
	return []Object{&rbacv1.RoleBinding{
		TypeMeta:   typeMeta(rbacv1.SchemeGroupVersion, "RoleBinding"),
		ObjectMeta: r.namespaced(gates.Namespace, r.Service.Name+"-feature-lifecycle"),
	}}
}

// controllerRights is what `annex controllers` may do in the cluster, which is the same user: it works on the server's behalf.
func (r Registration) controllerRights() []Object {
	return []Object{
		r.clusterRole(controllersRole, nil, append(ControllerRules(), ReportRules()...)...),
		r.clusterRoleBinding(controllersRole, controllersRole, r.subjects()),
		r.role(r.Service.Namespace, controllersRole, ControllerLeaseRules()...),
		r.roleBinding(r.Service.Namespace, controllersRole, controllersRole),
	}
}

// ServerRules are what the server needs everywhere, besides having users authenticated and authorized.
func ServerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// Writes into a namespace are admitted only while it exists.
		allow("get list watch", corev1.GroupName, "namespaces"),
		// Requests are queued as the cluster queues its own.
		allow("get list watch", flowcontrolv1.GroupName, "flowschemas", "prioritylevelconfigurations"),
		// Webhooks and policies of the cluster judge what is written here, too.
		allow("get list watch", admissionregistrationv1.GroupName, admissionKinds()...),
		// get: a leader's term is checked before its fenced writes. list: other servers are live if their Leases change, in the namespaces where
		// they announce Features.
		allow("get list", coordinationv1.GroupName, "leases"),
		// The CA bundle follows the authorities of the serving certificates, and an annotation says that what is served has changed.
		named(allow("get patch", apiregistration.GroupName, "apiservices"), extension.APIServiceNames()...),
	}
}

func admissionKinds() []string {
	var resources []string
	for _, kind := range admission.ConfigurationKinds() {
		resources = append(resources, kind.Resource)
	}
	return resources
}

// FeatureLeaseRules are what the server needs in annex-system, for the Leases of its replicas and of reporters.
func FeatureLeaseRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{allow("get list watch create update patch delete", coordinationv1.GroupName, "leases")}
}

// ControllerRules are what the controllers need everywhere.
func ControllerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// Feature gates of the cluster's components are read from their metrics and written into Features.
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
		allow("get list watch create update patch", features.GroupName, "features"),
		allow("get update patch", features.GroupName, "features/status"),
		// The cluster's id is provided, and told from those of other clusters by the uid of the namespace. Events tell what went wrong.
		allow("create", multicluster.GroupName, "clusterclaims"),
		named(allow("get list watch update", multicluster.GroupName, "clusterclaims"), multicluster.ClaimID, multicluster.ClaimClusterSet),
		named(allow("get update patch", multicluster.GroupName, "clusterclaims/status"), multicluster.ClaimID, multicluster.ClaimClusterSet),
		named(allow("get", corev1.GroupName, "namespaces"), metav1.NamespaceSystem),
		allow("create", eventsv1.GroupName, "events"),
	}
}

// ReportRules are what the controllers need where the features are that they report: their own feature gates are reported as those of
// any program.
func ReportRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{allow("create", features.GroupName, "featurereports")}
}

// ControllerLeaseRules are what the controllers need in the namespace of their Leases: who leads, and who there is to lead.
func ControllerLeaseRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{allow("get list watch create update patch delete", coordinationv1.GroupName, "leases")}
}

// rulesOf are the rules of a role that the cluster has by itself and that bindings here refer to.
func rulesOf(role string) []rbacv1.PolicyRule {
	switch role {
	case authDelegator:
		return []rbacv1.PolicyRule{
			allow("create", authenticationv1.GroupName, "tokenreviews"),
			allow("create", authorizationv1.GroupName, "subjectaccessreviews"),
		}
	case authenticationReader:
		return []rbacv1.PolicyRule{named(allow("get list watch", corev1.GroupName, "configmaps"), "extension-apiserver-authentication")}
	}
	return nil
}
