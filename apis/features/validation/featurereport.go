// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/features"
)

// ValidateFeatureReport says what is wrong with a FeatureReport, its status left aside.
func ValidateFeatureReport(report *features.FeatureReport) field.ErrorList {
	spec, path := &report.Spec, field.NewPath("spec")
	errs := validateRequired(path.Child("component"), spec.Component)
	errs = append(errs, validateText(path.Child("component"), spec.Component, maxComponentLength)...)
	errs = append(errs, validateRequired(path.Child("version"), spec.Version)...)
	errs = append(errs, validateText(path.Child("version"), spec.Version, maxVersionLength)...)
	errs = append(errs, validateRequired(path.Child("instance"), spec.Instance)...)
	errs = append(errs, validateText(path.Child("instance"), spec.Instance, maxInstanceLength)...)

	names := sets.New[string]()
	for i, feature := range spec.Features {
		at := path.Child("features").Index(i)
		for _, problem := range ValidateFeatureName(feature.Name, false) {
			errs = append(errs, field.Invalid(at.Child("name"), feature.Name, problem))
		}
		if names.Has(feature.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), feature.Name))
		}
		names.Insert(feature.Name)
		errs = append(errs, validateOneOf(at.Child("value"), feature.Value, values)...)
		errs = append(errs, validateOptional(at.Child("default"), feature.Default, values)...)
		errs = append(errs, validateOptional(at.Child("stability"), feature.Stability, stabilities)...)
	}
	return errs
}
