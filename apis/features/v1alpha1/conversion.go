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

// addFieldLabelConversions names the fields that a field selector on Features may use.
func addFieldLabelConversions(scheme *runtime.Scheme) error {
	return scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind("Feature"),
		func(label, value string) (string, string, error) {
			switch label {
			case "metadata.name", "metadata.namespace", "status.state", "status.source":
				return label, value, nil
			default:
				return "", "", fmt.Errorf("%q is not a field that features can be selected by; use metadata.name, metadata.namespace, status.state or status.source", label)
			}
		})
}
