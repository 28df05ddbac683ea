// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const countPrefix = "count/"

// Ignored returns the kinds that quotas do not count: what is not stored, and Events, which Kubernetes does not count either.
func Ignored() map[schema.GroupResource]struct{} {
	return map[schema.GroupResource]struct{}{
		{Resource: "events"}:                                                   {},
		{Group: "events.k8s.io", Resource: "events"}:                           {},
		{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             {},
		{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       {},
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      {},
		{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  {},
		{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: {},
		{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   {},
	}
}

// ShortNames returns the kinds that are counted under a name of their own as well.
func ShortNames() map[schema.GroupResource]corev1.ResourceName {
	return map[schema.GroupResource]corev1.ResourceName{
		{Resource: "configmaps"}:     corev1.ResourceConfigMaps,
		{Resource: "secrets"}:        corev1.ResourceSecrets,
		{Resource: "resourcequotas"}: corev1.ResourceQuotas,
	}
}

// kindOf returns the kind whose objects a name is about, if it is about the number of any that may be there.
func kindOf(name corev1.ResourceName) (schema.GroupResource, bool) {
	if counted, ok := strings.CutPrefix(string(name), countPrefix); ok {
		kind := schema.ParseGroupResource(counted)
		_, ignored := Ignored()[kind]
		return kind, !ignored
	}
	for kind, short := range ShortNames() {
		if short == name {
			return kind, true
		}
	}
	return schema.GroupResource{}, false
}
