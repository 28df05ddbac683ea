// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const everything = "*"

// validateRule judges which requests a webhook or a policy wants to see.
func validateRule(rule *admissionregistrationv1.RuleWithOperations, path *field.Path) field.ErrorList {
	errs := validateOperations(rule.Operations, path.Child("operations"))

	groups := path.Child("apiGroups")
	if len(rule.APIGroups) == 0 {
		errs = append(errs, field.Required(groups, ""))
	}
	errs = append(errs, validateAlone(rule.APIGroups, groups, "API groups")...)

	versions := path.Child("apiVersions")
	if len(rule.APIVersions) == 0 {
		errs = append(errs, field.Required(versions, ""))
	}
	errs = append(errs, validateAlone(rule.APIVersions, versions, "API versions")...)
	for i, version := range rule.APIVersions {
		if version == "" {
			errs = append(errs, field.Required(versions.Index(i), ""))
		}
	}
	errs = append(errs, validateResources(rule.Resources, path.Child("resources"))...)
	return append(errs, validateChoice(rule.Scope, path.Child("scope"),
		admissionregistrationv1.AllScopes, admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope)...)
}

func validateOperations(operations []admissionregistrationv1.OperationType, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(operations) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	errs = append(errs, validateAlone(operations, path, "operations")...)
	for i := range operations {
		errs = append(errs, validateChoice(&operations[i], path.Index(i),
			admissionregistrationv1.OperationAll, admissionregistrationv1.Connect, admissionregistrationv1.Create,
			admissionregistrationv1.Delete, admissionregistrationv1.Update)...)
	}
	return errs
}

// validateAlone refuses others beside the wildcard, which has them already.
func validateAlone[S ~string](values []S, path *field.Path, what string) field.ErrorList {
	if len(values) > 1 && slices.Contains(values, everything) {
		return field.ErrorList{field.Invalid(path, values, fmt.Sprintf("if '*' is present, must not specify other %s", what))}
	}
	return nil
}

// validateChoice refuses a value that is set and is none of those known.
func validateChoice[S ~string](value *S, path *field.Path, known ...S) field.ErrorList {
	if value == nil || slices.Contains(known, *value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, *value, known)}
}

// validateResources judges resources, each "resource", "resource/subresource" or either part a wildcard. The order matters: what an
// earlier wildcard has is refused, while a wildcard may follow what it has.
func validateResources(resources []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(resources) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	allOf, ofAll := map[string]bool{}, map[string]bool{}
	plain := false
	for i, full := range resources {
		if full == "" {
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		}
		resource, subresource, hasSubresource := strings.Cut(full, "/")
		if !hasSubresource {
			// Only the last one counts, as upstream has it: objects that are stored in clusters depend on it.
			plain = full != everything
			continue
		}
		if allOf[resource] {
			errs = append(errs, field.Invalid(path.Index(i), full, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, full)))
		}
		if ofAll[subresource] {
			errs = append(errs, field.Invalid(path.Index(i), full, fmt.Sprintf("if '*/%s' is present, must not specify %s", subresource, full)))
		}
		if subresource == everything {
			allOf[resource] = true
		}
		if resource == everything {
			ofAll[subresource] = true
		}
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(path, resources, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(resources, everything) {
		errs = append(errs, field.Invalid(path, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}
