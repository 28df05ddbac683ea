// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

func init() {
	localSchemeBuilder.Register(addDefaults)
}

// addDefaults registers the generated defaulters. No field has a default: what absence means is documented at each
// field, so that an object reads back as it was written.
func addDefaults(scheme *runtime.Scheme) error {
	return RegisterDefaults(scheme)
}
