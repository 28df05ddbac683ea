// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation says what is wrong with an object of our node.k8s.io, looking at nothing but the object and the one
// it replaces. Whether a size fits its node is not asked here: the node may not even exist yet.
package validation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/node"
)

var reclaimPolicies = []node.ReclaimPolicy{node.ReclaimHold, node.ReclaimRevert}

// ValidateNodeBalloonName says what is wrong with the name of a NodeBalloon, which is the name of a node, or with the
// beginning of one.
func ValidateNodeBalloonName(name string, prefix bool) []string {
	return apivalidation.NameIsDNSSubdomain(name, prefix)
}

// ValidateNodeBalloon says what is wrong with a NodeBalloon, its status left aside.
func ValidateNodeBalloon(balloon *node.NodeBalloon) field.ErrorList {
	spec, path := &balloon.Spec, field.NewPath("spec")
	var errs field.ErrorList
	// An empty map is no size: neither JSON nor protobuf keeps it apart from an absent one.
	switch {
	case len(spec.NodeSize) == 0 && len(spec.BalloonSize) == 0:
		errs = append(errs, field.Required(path, `must have exactly one of nodeSize and balloonSize, with cpu, memory or both; balloonSize: {cpu: "0"} gives everything back to the node`))
	case len(spec.NodeSize) > 0 && len(spec.BalloonSize) > 0:
		errs = append(errs, field.Forbidden(path, "must have exactly one of nodeSize and balloonSize, not both; remove one of them"))
	}
	errs = append(errs, validateSize(path.Child("nodeSize"), spec.NodeSize)...)
	errs = append(errs, validateSize(path.Child("balloonSize"), spec.BalloonSize)...)
	if deadline := spec.ReclaimDeadlineSeconds; deadline != nil && *deadline < 0 {
		errs = append(errs, field.Invalid(path.Child("reclaimDeadlineSeconds"), *deadline, "must not be negative; leave it out for 60 seconds"))
	}
	if policy := spec.ReclaimPolicy; policy != nil && !slices.Contains(reclaimPolicies, *policy) {
		errs = append(errs, field.NotSupported(path.Child("reclaimPolicy"), *policy, reclaimPolicies))
	}
	return errs
}

// ValidateNodeBalloonUpdate says what is wrong with a NodeBalloon that replaces an old one, its status left aside.
func ValidateNodeBalloonUpdate(balloon, _ *node.NodeBalloon) field.ErrorList {
	return ValidateNodeBalloon(balloon)
}

// ValidateNodeBalloonStatusUpdate says what is wrong with the status of a NodeBalloon that replaces an old one.
func ValidateNodeBalloonStatusUpdate(balloon, _ *node.NodeBalloon) field.ErrorList {
	status, path := &balloon.Status, field.NewPath("status")
	var errs field.ErrorList
	if status.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(path.Child("observedGeneration"), status.ObservedGeneration, "must not be negative"))
	}
	// What a node reports may have fractions of a byte, and what is effective is below zero on a node that shrank.
	errs = append(errs, validateAmounts(path.Child("allocatable"), status.Allocatable)...)
	errs = append(errs, validateAmounts(path.Child("allocated"), status.Allocated)...)
	errs = append(errs, validateResourceNames(path.Child("effective"), status.Effective)...)
	if status.PodName != "" {
		for _, problem := range apivalidation.NameIsDNSSubdomain(status.PodName, false) {
			errs = append(errs, field.Invalid(path.Child("podName"), status.PodName, problem))
		}
	}
	return append(errs, metav1validation.ValidateConditions(status.Conditions, path.Child("conditions"))...)
}

// validateSize checks a size that somebody wishes for.
func validateSize(path *field.Path, size corev1.ResourceList) field.ErrorList {
	errs := validateAmounts(path, size)
	// RoundUp tells by its result whether there was nothing to round.
	if cpu, ok := size[corev1.ResourceCPU]; ok {
		if rounded := cpu.DeepCopy(); !rounded.RoundUp(resource.Milli) {
			errs = append(errs, field.Invalid(path.Key(string(corev1.ResourceCPU)), cpu.String(), "must be whole millicores, such as 1500m"))
		}
	}
	if memory, ok := size[corev1.ResourceMemory]; ok {
		if rounded := memory.DeepCopy(); !rounded.RoundUp(0) {
			errs = append(errs, field.Invalid(path.Key(string(corev1.ResourceMemory)), memory.String(), "must be whole bytes, such as 512Mi; mind that m means thousandths"))
		}
	}
	return errs
}

func validateAmounts(path *field.Path, amounts corev1.ResourceList) field.ErrorList {
	errs := validateResourceNames(path, amounts)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if amount := amounts[name]; amount.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Key(string(name)), amount.String(), "must not be negative"))
		}
	}
	return errs
}

func validateResourceNames(path *field.Path, size corev1.ResourceList) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(size)) {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			errs = append(errs, field.NotSupported(path.Key(string(name)), name, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}))
		}
	}
	return errs
}
