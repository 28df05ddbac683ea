// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateQuotaSpec judges a quota by the same rules as kube-apiserver, those about pods and volumes included: a manifest that is
// valid there is valid here, and counts nothing where there is nothing to count.
func validateQuotaSpec(spec *corev1.ResourceQuotaSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateQuantities(spec.Hard, path.Child("hard"))
	errs = append(errs, validateScopes(spec, path.Child("scopes"))...)
	if spec.ScopeSelector != nil {
		errs = append(errs, validateScopeSelector(spec, path.Child("scopeSelector", "matchExpressions"))...)
	}
	return errs
}

func validateScopes(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	invalid := func(why string) { errs = append(errs, field.Invalid(path, spec.Scopes, why)) }
	for _, scope := range spec.Scopes {
		if !isScope(scope) {
			invalid("unsupported scope")
		}
		if !appliesToAll(scope, spec.Hard) {
			invalid("unsupported scope applied to resource")
		}
	}
	if contradict(spec.Scopes) {
		invalid("conflicting scopes")
	}
	return errs
}

func validateScopeSelector(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var scopes []corev1.ResourceQuotaScope
	for _, requirement := range spec.ScopeSelector.MatchExpressions {
		if !isScope(requirement.ScopeName) {
			errs = append(errs, field.Invalid(path.Child("scopeName"), requirement.ScopeName, "unsupported scope"))
		}
		if !appliesToAll(requirement.ScopeName, spec.Hard) {
			errs = append(errs, field.Invalid(path, spec.ScopeSelector, "unsupported scope applied to resource"))
		}
		errs = append(errs, validateRequirement(requirement, path)...)
		scopes = append(scopes, requirement.ScopeName)
	}
	if contradict(scopes) {
		errs = append(errs, field.Invalid(path, spec.Scopes, "conflicting scopes"))
	}
	return errs
}

func validateRequirement(requirement corev1.ScopedResourceSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch requirement.ScopeName {
	case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
		corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		if requirement.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), requirement.Operator, "must be 'Exists' for scope "+string(requirement.ScopeName)))
		}
	}
	switch requirement.Operator {
	case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
		if len(requirement.Values) == 0 {
			errs = append(errs, field.Required(path.Child("values"), "must have a value when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
		if len(requirement.Values) > 0 {
			errs = append(errs, field.Invalid(path.Child("values"), requirement.Values, "must be empty when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), requirement.Operator, "not a valid selector operator"))
	}
	return errs
}

func isScope(scope corev1.ResourceQuotaScope) bool {
	switch scope {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
		corev1.ResourceQuotaScopeVolumeAttributesClass:
		return true
	}
	return false
}

// appliesToAll tells whether a scope can be said of all the resources. Those of other groups are not known, and may have any.
func appliesToAll(scope corev1.ResourceQuotaScope, hard corev1.ResourceList) bool {
	for name := range hard {
		if isQuotaResource(name) && !applies(scope, name) {
			return false
		}
	}
	return true
}

func applies(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	pods := name == corev1.ResourcePods
	switch scope {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
			corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory:
			return true
		}
		return pods
	case corev1.ResourceQuotaScopeBestEffort:
		return pods
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	}
	return true
}

// contradict tells whether no object can be in all of the scopes.
func contradict(scopes []corev1.ResourceQuotaScope) bool {
	both := func(a, b corev1.ResourceQuotaScope) bool {
		return slices.Contains(scopes, a) && slices.Contains(scopes, b)
	}
	return both(corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort) ||
		both(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating)
}

// validateQuantities judges amounts of resources.
func validateQuantities(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, quantity := range list {
		errs = append(errs, validateQuotaResource(name, path.Key(string(name)))...)
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Key(string(name)), quantity.String(), validation.IsNegativeErrorMsg))
		}
		if isCounted(name) && !isWhole(quantity) {
			errs = append(errs, field.Invalid(path.Key(string(name)), quantity.String(), "must be an integer"))
		}
	}
	return errs
}

func validateQuotaResource(name corev1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range utilvalidation.IsQualifiedName(string(name)) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	if !strings.Contains(string(name), "/") && !isQuotaResource(name) {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource for quota, or a qualified name such as count/widgets.example.com"))
	}
	return errs
}

// isQuotaResource tells whether a name without a domain can be limited.
func isQuotaResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	return isObjectCount(name) ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

func isObjectCount(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return false
}

// isCounted tells whether there are only whole ones of a resource: objects, and devices of other domains than Kubernetes' own.
func isCounted(name corev1.ResourceName) bool {
	if isObjectCount(name) {
		return true
	}
	text := string(name)
	return strings.Contains(text, "/") && !strings.Contains(text, corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(text, corev1.DefaultResourceRequestsPrefix) &&
		len(utilvalidation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+text)) == 0
}

// isWhole is exact to a thousandth, which is as fine as quantities of quotas are.
func isWhole(quantity resource.Quantity) bool { return quantity.MilliValue()%1000 == 0 }
