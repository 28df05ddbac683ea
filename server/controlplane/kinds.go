// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds that parts of the server need. What needs one that is switched off is off, too.
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

// serve tells whether all of the kinds are served.
func (o *completedOptions) serve(kinds ...schema.GroupResource) bool {
	for _, kind := range kinds {
		if !o.kinds.Serve(kind) {
			return false
		}
	}
	return true
}

// queues tells whether requests are queued by priority; otherwise they are limited by number.
func (o *completedOptions) queues() bool {
	return o.Features.PriorityAndFairness && o.serve(flowSchemaKind, priorityLevelKind)
}

// runs tells whether a controller that runs in one replica at a time is wanted.
func (o *completedOptions) runs(controller string) bool {
	return !slices.Contains(o.WithoutControllers, controller)
}
