// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

func init() {
	localSchemeBuilder.Register(addFieldLabelConversions)
}

// addFieldLabelConversions names the fields that a field selector on ClusterIDReservations may use.
func addFieldLabelConversions(scheme *runtime.Scheme) error {
	return scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind("ClusterIDReservation"),
		func(label, value string) (string, string, error) {
			switch label {
			case "metadata.name", "spec.clusterSet", "spec.clusterID", "spec.clusterUID":
				return label, value, nil
			}
			return "", "", fmt.Errorf("%q is not a field that ClusterIDReservations can be selected by; use metadata.name, spec.clusterSet, spec.clusterID or spec.clusterUID", label)
		})
}
