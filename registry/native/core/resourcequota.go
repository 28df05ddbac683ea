// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/resource"
)

func resourceQuotas() resource.Kind[*corev1.ResourceQuota] {
	return resource.Kind[*corev1.ResourceQuota]{
		Plural: "resourcequotas", Singular: "resourcequota", ShortNames: []string{"quota"},
		NewList:              func() runtime.Object { return &corev1.ResourceQuotaList{} },
		Default:              defaultResourceQuota,
		Validate:             func(quota *corev1.ResourceQuota) field.ErrorList { return validateQuotaSpec(&quota.Spec) },
		ValidateUpdate:       validateResourceQuotaUpdate,
		ValidateStatusUpdate: validateResourceQuotaStatusUpdate,
		MetadataWithStatus:   true,
		QualifiedFinalizers:  true,
		Generations:          resource.NoGenerations,
		ReturnDeleted:        true,
		Warnings:             warnOfResourceQuota,
		Columns: []resource.Column[*corev1.ResourceQuota]{
			{
				Name: "Request", Description: "Request represents a minimum amount of cpu/memory that a container may consume.",
				Of: func(quota *corev1.ResourceQuota) any {
					return usage(quota, func(name string) bool { return !isLimit(name) })
				},
			},
			{
				Name:        "Limit",
				Description: "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
				Of:          func(quota *corev1.ResourceQuota) any { return usage(quota, isLimit) },
			},
		},
		UnconditionalUpdate: true,
	}
}

// defaultResourceQuota rounds quantities up to thousandths: finer ones cannot be counted.
func defaultResourceQuota(quota *corev1.ResourceQuota) {
	for _, list := range []corev1.ResourceList{quota.Spec.Hard, quota.Status.Hard, quota.Status.Used} {
		for name, quantity := range list {
			quantity.RoundUp(-3)
			list[name] = quantity
		}
	}
}

func validateResourceQuotaUpdate(quota, old *corev1.ResourceQuota) field.ErrorList {
	errs := validateQuotaSpec(&quota.Spec)
	if !sets.New(quota.Spec.Scopes...).Equal(sets.New(old.Spec.Scopes...)) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "scopes"), quota.Spec.Scopes, validation.FieldImmutableErrorMsg))
	}
	return errs
}

func validateResourceQuotaStatusUpdate(quota, _ *corev1.ResourceQuota) field.ErrorList {
	var errs field.ErrorList
	if quota.ResourceVersion == "" {
		errs = append(errs, field.Required(field.NewPath("resourceVersion"), ""))
	}
	errs = append(errs, validateQuantities(quota.Status.Hard, field.NewPath("status", "hard"))...)
	return append(errs, validateQuantities(quota.Status.Used, field.NewPath("status", "used"))...)
}

// warnOfResourceQuota tells of requests that may be larger than their limits.
func warnOfResourceQuota(_ context.Context, quota, old *corev1.ResourceQuota) []string {
	if old != nil {
		return nil
	}
	var warnings []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage} {
		requestName, limitName := "requests."+name, "limits."+name
		request, requested := quota.Spec.Hard[requestName]
		if !requested && (name == corev1.ResourceCPU || name == corev1.ResourceMemory) {
			requestName = name
			request, requested = quota.Spec.Hard[requestName]
		}
		if limit, limited := quota.Spec.Hard[limitName]; requested && limited && request.Cmp(limit) > 0 {
			warnings = append(warnings, fmt.Sprintf("ResourceQuota %s (%s) should be less than %s (%s)",
				requestName, request.String(), limitName, limit.String()))
		}
	}
	return warnings
}

func isLimit(name string) bool { return strings.HasPrefix(name, "limits.") }

// usage shows what is used of the resources whose names match.
func usage(quota *corev1.ResourceQuota, matches func(name string) bool) string {
	var shown []string
	for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
		if matches(string(name)) {
			used, hard := quota.Status.Used[name], quota.Status.Hard[name]
			shown = append(shown, fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String()))
		}
	}
	return strings.Join(shown, ", ")
}
