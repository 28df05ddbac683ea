// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// defaultMatchResources completes what a policy or a binding applies to. Nil stays nil.
func defaultMatchResources(match *admissionregistrationv1.MatchResources) {
	if match == nil {
		return
	}
	defaultPointer(&match.MatchPolicy, admissionregistrationv1.Equivalent)
	defaultPointer(&match.NamespaceSelector, metav1.LabelSelector{})
	defaultPointer(&match.ObjectSelector, metav1.LabelSelector{})
	for i := range match.ResourceRules {
		defaultPointer(&match.ResourceRules[i].Scope, admissionregistrationv1.AllScopes)
	}
	for i := range match.ExcludeResourceRules {
		defaultPointer(&match.ExcludeResourceRules[i].Scope, admissionregistrationv1.AllScopes)
	}
}

// validateMatchResources judges what a policy or a binding applies to. Nil is everything.
func validateMatchResources(match *admissionregistrationv1.MatchResources, path *field.Path) field.ErrorList {
	if match == nil {
		return nil
	}
	errs := validateRequiredChoice(match.MatchPolicy, path.Child("matchPolicy"), admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)
	errs = append(errs, validateSelector(match.NamespaceSelector, path.Child("namespaceSelector"))...)
	errs = append(errs, validateSelector(match.ObjectSelector, path.Child("objectSelector"))...)
	errs = append(errs, validateNamedRules(match.ResourceRules, path.Child("resourceRules"))...)
	return append(errs, validateNamedRules(match.ExcludeResourceRules, path.Child("excludeResourceRules"))...)
}

func validateSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if selector == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

func validateNamedRules(rules []admissionregistrationv1.NamedRuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range rules {
		at, names := path.Index(i), sets.New[string]()
		for j, name := range rules[i].ResourceNames {
			for _, message := range content.IsPathSegmentName(name) {
				errs = append(errs, field.Invalid(at.Child("resourceNames").Index(j), name, message))
			}
			if names.Has(name) {
				errs = append(errs, field.Duplicate(at.Child("resourceNames").Index(j), name))
			}
			names.Insert(name)
		}
		errs = append(errs, validateRule(&rules[i].RuleWithOperations, at)...)
	}
	return errs
}

// validateMutableOperations refuses rules that match requests with nothing to mutate.
func validateMutableOperations(match *admissionregistrationv1.MatchResources, path *field.Path) field.ErrorList {
	if match == nil {
		return nil
	}
	var errs field.ErrorList
	for _, rule := range match.ResourceRules {
		for _, operation := range rule.Operations {
			// The path names neither rule nor operation, as upstream has it.
			errs = append(errs, validateChoice(&operation, path.Child("resourceRules", "operations"),
				admissionregistrationv1.OperationAll, admissionregistrationv1.Connect, admissionregistrationv1.Create, admissionregistrationv1.Update)...)
		}
	}
	return errs
}

func validateRequiredChoice[S ~string](value *S, path *field.Path, known ...S) field.ErrorList {
	if value == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return validateChoice(value, path, known...)
}
