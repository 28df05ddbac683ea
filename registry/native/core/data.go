// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corev1 "k8s.io/api/core/v1"
)

// maxDataSize is what the values of a ConfigMap or Secret may hold together, in bytes.
const maxDataSize = corev1.MaxSecretSize

// validateKeys judges the keys of a map of data.
func validateKeys[V any](path *field.Path, data map[string]V) field.ErrorList {
	var errs field.ErrorList
	for key := range data {
		for _, message := range validation.IsConfigMapKey(key) {
			errs = append(errs, field.Invalid(path.Key(key), key, message))
		}
	}
	return errs
}

func sizeOf[V string | []byte](data map[string]V) int {
	size := 0
	for _, value := range data {
		size += len(value)
	}
	return size
}

// validateFrozen judges an update of an object whose immutable field was true.
func validateFrozen(immutable *bool, sameData bool) field.ErrorList {
	var errs field.ErrorList
	if immutable == nil || !*immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"))
	}
	if !sameData {
		errs = append(errs, field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"))
	}
	return errs
}
