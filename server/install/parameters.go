// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ParametersRole is the ClusterRole by which the server reads the parameters of policies.
	ParametersRole = "annex-policy-parameters"
	// ParametersLabel with the value "true" has the rules of a ClusterRole be among those of ParametersRole. An administrator labels roles
	// with get, list and watch of the kinds by which policies about Annex's kinds are set; the server may read none of them by itself.
	ParametersLabel = "annex.io/aggregate-to-policy-parameters"
)

// ParameterReader returns the ClusterRole of the name ParametersRole, without the marks of a registration.
func ParameterReader() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:        typeMeta(rbacv1.SchemeGroupVersion, "ClusterRole"),
		ObjectMeta:      metav1.ObjectMeta{Name: ParametersRole},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{ParametersLabel: "true"}}}},
	}
}

func (r Registration) parameterReader() Object {
	role := ParameterReader()
	role.ObjectMeta = r.metadata(ParametersRole)
	return role
}
