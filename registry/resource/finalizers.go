// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateFinalizers judges what the libraries leave open: whether a finalizer tells whose it is.
func (s strategy[T]) validateFinalizers(obj T) field.ErrorList {
	if !s.kind.QualifiedFinalizers {
		return nil
	}
	own := []string{string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}
	var errs field.ErrorList
	for i, finalizer := range obj.GetFinalizers() {
		if !strings.Contains(finalizer, "/") && !slices.Contains(own, finalizer) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), finalizer, "must have a domain, such as example.com/finalizer"))
		}
	}
	return errs
}
