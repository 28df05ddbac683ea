// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NewScheme returns a scheme that an apiserver can serve: the given groups, and the types of requests and answers that are
// looked up in the legacy group's version, such as ListOptions and Status. Each server should have its own, since schemes
// can be changed.
func NewScheme(install ...func(*runtime.Scheme)) *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, group := range install {
		group(scheme)
	}
	unversioned := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, unversioned)
	scheme.AddUnversionedTypes(unversioned,
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}
