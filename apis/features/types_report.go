// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FeatureReport tells the server which feature gates a component has and how it sees them, up to 1024 in one request.
type FeatureReport struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   FeatureReportSpec
	Status FeatureReportStatus
}

// FeatureReportSpec is what a component reports.
type FeatureReportSpec struct {
	Component string
	Version   string
	Instance  string
	Features  []ReportedFeature
	Observed  string
	Stopping  bool
}

// ReportedFeature is one feature gate as a component sees it.
type ReportedFeature struct {
	Name      string
	Value     Value
	Default   Value
	Stability Stability
}

// FeatureReportStatus is the server's answer to a report.
type FeatureReportStatus struct {
	Features []FeatureAnswer
}

// FeatureAnswer tells where one reported feature stands.
type FeatureAnswer struct {
	Name              string
	State             State
	UseEvaluationTime *metav1.Time
}
