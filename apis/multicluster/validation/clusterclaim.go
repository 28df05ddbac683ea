// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation says what is wrong with an object of multicluster.k8s.io, looking at nothing but the object and the
// one it replaces. What depends on other objects, such as that the id goes before the set, is decided in the registry.
package validation

import (
	"fmt"
	"strings"
	"unicode/utf8"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/multicluster"
)

const (
	// maxValueBytes is KEP-2149's limit: 128 KiB.
	maxValueBytes = 131072
	// maxShownRunes keeps a long value from filling the message that says what is wrong with it.
	maxShownRunes = 64
)

// ValidateClusterClaimName says what is wrong with the name of a ClusterClaim, or with the beginning of one.
func ValidateClusterClaimName(name string, prefix bool) []string {
	return apivalidation.NameIsDNSSubdomain(name, prefix)
}

// ValidateClusterClaim says what is wrong with a ClusterClaim, its status left aside.
func ValidateClusterClaim(claim *multicluster.ClusterClaim) field.ErrorList {
	path, value := field.NewPath("spec", "value"), claim.Spec.Value
	if errs := validateValue(path, value); len(errs) > 0 {
		return errs
	}
	switch claim.Name {
	case multicluster.ClaimID:
		return validateFormat(path, value, "a cluster id", validation.IsDNS1123Label)
	case multicluster.ClaimClusterSet:
		return validateFormat(path, value, "the name of a cluster set", validation.IsDNS1123Subdomain)
	}
	return nil
}

// ValidateClusterClaimUpdate says what is wrong with a ClusterClaim that replaces an old one, its status left aside.
func ValidateClusterClaimUpdate(claim, old *multicluster.ClusterClaim) field.ErrorList {
	errs := ValidateClusterClaim(claim)
	if claim.Name == multicluster.ClaimClusterSet && claim.Spec.Value != old.Spec.Value {
		errs = append(errs, field.Invalid(field.NewPath("spec", "value"), shown(claim.Spec.Value), fmt.Sprintf(
			"cannot be changed from %q; to leave that set delete the ClusterClaim %s, and create it anew to join another",
			shown(old.Spec.Value), multicluster.ClaimClusterSet)))
	}
	return errs
}

// ValidateClusterClaimStatusUpdate says what is wrong with the status of a ClusterClaim that replaces an old one.
func ValidateClusterClaimStatusUpdate(claim, _ *multicluster.ClusterClaim) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	if claim.Status.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(path.Child("observedGeneration"), claim.Status.ObservedGeneration, "must not be negative"))
	}
	return append(errs, metav1validation.ValidateConditions(claim.Status.Conditions, path.Child("conditions"))...)
}

// validateValue checks what holds for a claim of any name.
func validateValue(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, fmt.Sprintf("must be 1 to %d bytes", maxValueBytes))}
	}
	if len(value) > maxValueBytes {
		tooLong := field.TooLong(path, nil, maxValueBytes)
		tooLong.Detail = fmt.Sprintf("must be at most %d bytes; this value has %d", maxValueBytes, len(value))
		return field.ErrorList{tooLong}
	}
	for i, r := range value {
		if r != utf8.RuneError {
			continue
		}
		if _, size := utf8.DecodeRuneInString(value[i:]); size == 1 {
			return field.ErrorList{field.Invalid(path, shown(value), fmt.Sprintf("must be valid UTF-8; the byte at offset %d is not", i))}
		}
		return field.ErrorList{field.Invalid(path, shown(value), fmt.Sprintf(
			"must not contain the replacement character U+FFFD, which is at byte offset %d; most often it means that what was sent was not valid UTF-8", i))}
	}
	return nil
}

// validateFormat checks a well-known value, which is never trimmed: what is stored is what was sent.
func validateFormat(path *field.Path, value, what string, problems func(string) []string) field.ErrorList {
	if trimmed := strings.TrimRight(value, "\r\n"); trimmed != value && len(problems(trimmed)) == 0 {
		return field.ErrorList{field.Invalid(path, shown(value), fmt.Sprintf(
			"ends with a newline, which %s cannot contain; send it without (in YAML write %q on one line or use |-, in a shell use printf %%s)", what, trimmed))}
	}
	var errs field.ErrorList
	for _, problem := range problems(value) {
		errs = append(errs, field.Invalid(path, shown(value), "is not "+what+": "+problem))
	}
	return errs
}

// shown is the beginning of a value, fit for a message.
func shown(value string) string {
	value = strings.ToValidUTF8(value, "\uFFFD")
	runes := 0
	for i := range value {
		if runes == maxShownRunes {
			return value[:i] + "…"
		}
		runes++
	}
	return value
}
