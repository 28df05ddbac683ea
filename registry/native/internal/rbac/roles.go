// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/resource"
)

func roleKind() resource.Kind[*rbacv1.Role] {
	return resource.Kind[*rbacv1.Role]{
		Plural: roles, Singular: "role",
		NewList:             func() runtime.Object { return &rbacv1.RoleList{} },
		ValidateName:        validateName,
		Validate:            validateRole,
		ValidateUpdate:      func(role, _ *rbacv1.Role) field.ErrorList { return validateRole(role) },
		CreateOnUpdate:      true,
		UnconditionalUpdate: true,
	}
}

func clusterRoleKind() resource.Kind[*rbacv1.ClusterRole] {
	return resource.Kind[*rbacv1.ClusterRole]{
		Plural: clusterRoles, Singular: "clusterrole", Scope: resource.Cluster,
		NewList:      func() runtime.Object { return &rbacv1.ClusterRoleList{} },
		ValidateName: validateName,
		Validate:     func(role *rbacv1.ClusterRole) field.ErrorList { return validateClusterRole(role, nil) },
		ValidateUpdate: func(role, old *rbacv1.ClusterRole) field.ErrorList {
			return validateClusterRole(role, old.AggregationRule)
		},
		CreateOnUpdate:      true,
		UnconditionalUpdate: true,
	}
}

func validateRole(role *rbacv1.Role) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range role.Rules {
		at := field.NewPath("rules").Index(i)
		errs = append(errs, validateRule(rule, at)...)
		if len(rule.NonResourceURLs) > 0 {
			errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
		}
	}
	return errs
}

func validateClusterRole(role *rbacv1.ClusterRole, old *rbacv1.AggregationRule) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range role.Rules {
		errs = append(errs, validateRule(rule, field.NewPath("rules").Index(i))...)
	}
	if role.AggregationRule == nil {
		return errs
	}
	at := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(role.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	// Who has stored a bad value before that was refused can still change the rest.
	tolerated := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: len(validateSelectors(old, at, metav1validation.LabelSelectorValidationOptions{})) > 0}
	return append(errs, validateSelectors(role.AggregationRule, at, tolerated)...)
}

func validateSelectors(rule *rbacv1.AggregationRule, at *field.Path, options metav1validation.LabelSelectorValidationOptions) field.ErrorList {
	var errs field.ErrorList
	if rule == nil {
		return nil
	}
	for i, selector := range rule.ClusterRoleSelectors {
		errs = append(errs, metav1validation.ValidateLabelSelector(&selector, options, at.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(&selector); err != nil {
			errs = append(errs, field.Invalid(at.Index(i), selector, "invalid label selector."))
		}
	}
	return errs
}

func validateRule(rule rbacv1.PolicyRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(rule.Verbs) == 0 {
		errs = append(errs, field.Required(at.Child("verbs"), "verbs must contain at least one value"))
	}
	if len(rule.NonResourceURLs) > 0 {
		if len(rule.APIGroups) > 0 || len(rule.Resources) > 0 || len(rule.ResourceNames) > 0 {
			errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), rule.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
		}
		return errs
	}
	if len(rule.APIGroups) == 0 {
		errs = append(errs, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(rule.Resources) == 0 {
		errs = append(errs, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}
