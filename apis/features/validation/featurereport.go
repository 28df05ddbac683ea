// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/features"
)

// MaxReportedFeatures is the number of features that one report may have.
const MaxReportedFeatures = 1024

const (
	// maxReportedBytes limits the text of a report's features.
	maxReportedBytes = 128 << 10
	// maxShown is the length of a wrong resourceVersion in the error.
	maxShown = 64
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

	if spec.Observed != "" {
		// The order of resourceVersions is that of the numbers which they are.
		if _, err := strconv.ParseUint(spec.Observed, 10, 64); err != nil {
			errs = append(errs, field.Invalid(path.Child("observed"), strings.ToValidUTF8(spec.Observed[:min(len(spec.Observed), maxShown)], "\uFFFD"),
				"must be the resourceVersion of a Feature or of a list of Features"))
		}
	}
	if n := len(spec.Features); n > MaxReportedFeatures {
		// The rest costs time for each entry.
		return append(errs, field.TooMany(path.Child("features"), n, MaxReportedFeatures))
	}
	size := 0
	for i := range spec.Features {
		feature := &spec.Features[i]
		size += len(feature.Name) + len(feature.Value) + len(feature.Default) + len(feature.Stability)
	}
	if size > maxReportedBytes {
		return append(errs, field.TooLong(path.Child("features"), "", maxReportedBytes))
	}
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
