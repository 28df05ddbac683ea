// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FeatureReport tells the server which feature gates a component has and how it sees them, up to 1024 in one request.
// It can only be created and is never stored: the server merges it into status.uses of the Features in the report's
// namespace, announces unknown names as new Features, and answers in status where each feature stands. Each report is
// also the sign of life of the reporting process: it counts as running for 15 minutes after its last report, and
// transitions of Features wait for its answers. metadata.creationTimestamp of the answer is the server's time.
type FeatureReport struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. metadata.namespace is the namespace of the Features that are
	// reported; the name may be left empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// spec is the report.
	// +required
	Spec FeatureReportSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`

	// status is the server's answer. What a client sends here is ignored.
	// +optional
	Status FeatureReportStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// FeatureReportSpec is what a component reports.
type FeatureReportSpec struct {
	// component is the name of the reporting component, such as kube-scheduler; 1 to 63 characters.
	// +required
	Component string `json:"component" protobuf:"bytes,1,opt,name=component"`

	// version is the version of the reporting component, such as v1.37.1; 1 to 64 characters.
	// +required
	Version string `json:"version" protobuf:"bytes,2,opt,name=version"`

	// instance tells one running process of the component from all others, such as a pod's name; at most 253
	// characters. It is shown as an example in status.uses of the Feature.
	// +required
	Instance string `json:"instance" protobuf:"bytes,3,opt,name=instance"`

	// features are the gates that are reported, each name once.
	// +required
	// +listType=map
	// +listMapKey=name
	Features []ReportedFeature `json:"features" protobuf:"bytes,4,rep,name=features"`

	// observed is the resourceVersion up to which the process has applied every change of a Feature in the namespace and
	// reported the values that disagree. Empty until the process has read the Features.
	// +optional
	Observed string `json:"observed,omitempty" protobuf:"bytes,5,opt,name=observed"`

	// stopping is true in the last report of a process: the server stops waiting for its answers.
	// +optional
	Stopping bool `json:"stopping,omitempty" protobuf:"varint,6,opt,name=stopping"`
}

// ReportedFeature is one feature gate as a component sees it.
type ReportedFeature struct {
	// name is the name of the feature gate, which is the name of the Feature: a letter followed by letters, digits,
	// '.', '_' or '-', at most 253 characters.
	// +required
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`

	// value is the value that the gate has in this component: Enabled or Disabled.
	// +required
	Value Value `json:"value" protobuf:"bytes,2,opt,name=value,casttype=Value"`

	// default is the value that the gate has when nobody sets it: Enabled or Disabled. Empty if that is not known.
	// +optional
	Default Value `json:"default,omitempty" protobuf:"bytes,3,opt,name=default,casttype=Value"`

	// stability is how mature the feature is in this component: PreAlpha, Alpha, Beta, GA or Deprecated. Empty if
	// that is not known.
	// +optional
	Stability Stability `json:"stability,omitempty" protobuf:"bytes,4,opt,name=stability,casttype=Stability"`
}

// FeatureReportStatus is the server's answer to a report.
type FeatureReportStatus struct {
	// features tells where each reported feature stands.
	// +optional
	// +listType=map
	// +listMapKey=name
	Features []FeatureAnswer `json:"features,omitempty" protobuf:"bytes,1,rep,name=features"`
}

// FeatureAnswer tells where one reported feature stands.
type FeatureAnswer struct {
	// name is the name of the feature gate.
	// +required
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`

	// state is where the feature stands: On, Off, TurningOn or TurningOff. Empty if it is not announced yet.
	// +optional
	State State `json:"state,omitempty" protobuf:"bytes,2,opt,name=state,casttype=State"`

	// useEvaluationTime is when the server will read the answers to its question who uses the feature. A component
	// that disagrees with the state must have reported by then. Absent when no question is open.
	// +optional
	UseEvaluationTime *metav1.Time `json:"useEvaluationTime,omitempty" protobuf:"bytes,3,opt,name=useEvaluationTime"`
}
