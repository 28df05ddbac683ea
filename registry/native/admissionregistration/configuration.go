// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const webhooksColumn = "Webhooks indicates the number of webhooks registered in this configuration"

// reservedSuffix ends the names of what a server reads from files when it starts.
const reservedSuffix = ".static.k8s.io"

// validateReservedName keeps names free for what a server reads from files.
func validateReservedName(obj metav1.Object) field.ErrorList {
	name := obj.GetName()
	if !strings.HasSuffix(name, reservedSuffix) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name,
		fmt.Sprintf("names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", reservedSuffix))}
}

// validateStoredMeta judges on update what names nothing any more, as upstream does for this group; the rest of metadata is judged for all kinds.
func validateStoredMeta(obj metav1.Object) field.ErrorList {
	prefix := obj.GetGenerateName()
	if prefix == "" {
		return nil
	}
	var errs field.ErrorList
	for _, message := range validation.NameIsDNSSubdomain(prefix, true) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "generateName"), prefix, message))
	}
	return errs
}

// ExemptResources returns the reviews that no admission plugin processes: a webhook that fails for them would lock out all users.
func ExemptResources() []schema.GroupResource {
	return []schema.GroupResource{
		{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
		{Group: "authentication.k8s.io", Resource: "tokenreviews"},
		{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
	}
}

func warnOfWebhooks(hooks []webhook) []string {
	var warnings []string
	for i := range hooks {
		warnings = append(warnings, warnOfRules(hooks[i].Rules, field.NewPath("webhooks").Index(i).Child("rules"))...)
	}
	return warnings
}

// warnOfRules tells of rules that name what no webhook sees. A wildcard may mean the others it has.
func warnOfRules(rules []admissionregistrationv1.RuleWithOperations, path *field.Path) []string {
	var warnings []string
	for i, rule := range rules {
		if slices.Contains(rule.APIGroups, everything) || slices.Contains(rule.Resources, everything) {
			continue
		}
		told := sets.New[schema.GroupResource]()
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				named := schema.GroupResource{Group: group, Resource: resource}
				if slices.Contains(ExemptResources(), named) && !told.Has(named) {
					told.Insert(named)
					warnings = append(warnings, fmt.Sprintf("%s: %s is excluded from admission webhooks; this rule will have no effect", path.Index(i), named))
				}
			}
		}
	}
	return warnings
}
