// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The built-in resources that parts of the server need. A part is off if one of its resources is disabled.
var (
	namespaceKind      = schema.GroupResource{Resource: "namespaces"}
	configMapKind      = schema.GroupResource{Resource: "configmaps"}
	quotaKind          = schema.GroupResource{Resource: "resourcequotas"}
	secretKind         = schema.GroupResource{Resource: "secrets"}
	serviceAccountKind = schema.GroupResource{Resource: "serviceaccounts"}
	signingKind        = schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	leaseKind          = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	flowSchemaKind     = schema.GroupResource{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}
	clusterRoleKind    = schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}
	migrationKind      = schema.GroupResource{Group: "storagemigration.k8s.io", Resource: "storageversionmigrations"}
	policyKind         = schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}
	priorityLevelKind  = schema.GroupResource{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}
)

// serve reports whether all of the resources are served.
func (o *completedOptions) serve(resources ...schema.GroupResource) bool {
	for _, resource := range resources {
		if !o.kinds.Serve(resource) {
			return false
		}
	}
	return true
}

// queues reports whether requests are queued by priority; otherwise their number is limited.
func (o *completedOptions) queues() bool {
	return o.Features.PriorityAndFairness && o.serve(flowSchemaKind, priorityLevelKind)
}

// runs reports whether a controller is not disabled.
func (o *completedOptions) runs(controller string) bool {
	return !slices.Contains(o.DisabledControllers, controller)
}
