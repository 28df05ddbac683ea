// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "sites.example.com", Version: "v1"}

// Site is a set of pages; config/crd.yaml defines it.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status,omitzero"`
}

// SiteSpec is what a user wants.
type SiteSpec struct {
	// Pages are texts by name.
	Pages map[string]string `json:"pages,omitempty"`
}

// SiteStatus is what the controller has done.
type SiteStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Pages is how many there are.
	Pages int `json:"pages"`
}

// SiteList is a list of Sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Site `json:"items"`
}

func addToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}

func (s *Site) deepCopy() *Site {
	out := *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Pages = maps.Clone(s.Spec.Pages)
	out.Status.Conditions = make([]metav1.Condition, len(s.Status.Conditions))
	for i := range s.Status.Conditions {
		s.Status.Conditions[i].DeepCopyInto(&out.Status.Conditions[i])
	}
	return &out
}

// DeepCopyObject makes it a runtime.Object.
func (s *Site) DeepCopyObject() runtime.Object { return s.deepCopy() }

// DeepCopyObject makes it a runtime.Object.
func (l *SiteList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Site, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].deepCopy()
	}
	return &out
}
