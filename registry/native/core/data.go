// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"reflect"

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

// frozen is a map of data that may not change.
type frozen struct {
	name     string
	now, old any
}

// validateFrozen judges an update of an object whose immutable field was true. No data and empty data are not the same.
func validateFrozen(immutable *bool, data ...frozen) field.ErrorList {
	var errs field.ErrorList
	if immutable == nil || !*immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"))
	}
	for _, part := range data {
		if !reflect.DeepEqual(part.now, part.old) {
			errs = append(errs, field.Forbidden(field.NewPath(part.name), "field is immutable when `immutable` is set"))
		}
	}
	return errs
}
