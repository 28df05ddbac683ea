// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Feature says, for one feature gate, whether the feature is on, who uses it, and whether it is safe to turn it off or to upgrade.
type Feature struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   FeatureSpec
	Status FeatureStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FeatureList is a list of Features.
type FeatureList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Feature
}

// FeatureSpec is what the clients of the API wish for a feature.
type FeatureSpec struct {
	Desired Value
	Canary  *Canary
}

// Canary is how many see the new value of a feature before the rest does.
type Canary struct {
	Percent int32
}

// FeatureStatus is what is known about a feature.
type FeatureStatus struct {
	ObservedGeneration int64
	Stability          Stability
	Locked             bool
	Dynamic            bool
	Version            string
	Component          string
	Default            Value
	Configured         Value
	Source             Source
	State              State
	Tasks              []Task
	Uses               []Use
	UseEvaluationTime  *metav1.Time
	DanglingReferences *DanglingReferences
	Conditions         []metav1.Condition
}

// Task is one step on the way to On or Off.
type Task struct {
	Name            string
	State           TaskState
	Done            int64
	Total           *int64
	Message         string
	Attempts        int32
	LastAttemptTime *metav1.Time
}

// Use tells that one version of one component sees a feature as Enabled or Disabled.
type Use struct {
	Component  string
	Version    string
	Value      Value
	Reporter   string
	ReportTime *metav1.Time
}

// DanglingReferences tells about stored objects that use a feature that is Off.
type DanglingReferences struct {
	Count    int64
	Examples []ObjectReference
}

// ObjectReference names a stored object.
type ObjectReference struct {
	Group     string
	Resource  string
	Namespace string
	Name      string
}
