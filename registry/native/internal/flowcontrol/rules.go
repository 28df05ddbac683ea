// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package flowcontrol

import (
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const everything = "*"

func validateRule(rule flowcontrolv1.PolicyRulesWithSubjects, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(rule.Subjects) == 0 {
		errs = append(errs, field.Required(path.Child("subjects"), "subjects must contain at least one value"))
	}
	for i, subject := range rule.Subjects {
		errs = append(errs, validateSubject(subject, path.Child("subjects").Index(i))...)
	}
	if len(rule.ResourceRules) == 0 && len(rule.NonResourceRules) == 0 {
		errs = append(errs, field.Required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i, resources := range rule.ResourceRules {
		at := path.Child("resourceRules").Index(i)
		errs = append(errs, validateVerbs(resources.Verbs, at.Child("verbs"))...)
		errs = append(errs, validateSet(resources.APIGroups, at.Child("apiGroups"), nil)...)
		errs = append(errs, validateSet(resources.Resources, at.Child("resources"), nil)...)
		if len(resources.Namespaces) > 0 || !resources.ClusterScope {
			errs = append(errs, validateSet(resources.Namespaces, at.Child("namespaces"), validateNamespace)...)
		}
	}
	for i, paths := range rule.NonResourceRules {
		at := path.Child("nonResourceRules").Index(i)
		errs = append(errs, validateVerbs(paths.Verbs, at.Child("verbs"))...)
		errs = append(errs, validateSet(paths.NonResourceURLs, at.Child("nonResourceURLs"), validateURLPath)...)
	}
	return errs
}

// validateSubject wants exactly the member that the subject's kind names.
func validateSubject(subject flowcontrolv1.Subject, path *field.Path) field.ErrorList {
	members := []struct {
		kind     flowcontrolv1.SubjectKind
		name     string
		set      bool
		validate func(at *field.Path) field.ErrorList
	}{
		{flowcontrolv1.SubjectKindUser, "user", subject.User != nil, func(at *field.Path) field.ErrorList { return requireName(subject.User.Name, at) }},
		{flowcontrolv1.SubjectKindGroup, "group", subject.Group != nil, func(at *field.Path) field.ErrorList { return requireName(subject.Group.Name, at) }},
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", subject.ServiceAccount != nil, func(at *field.Path) field.ErrorList {
			return validateServiceAccount(subject.ServiceAccount, at)
		}},
	}
	known := make([]flowcontrolv1.SubjectKind, 0, len(members))
	for _, member := range members {
		known = append(known, member.kind)
	}
	if !slices.Contains(known, subject.Kind) {
		return field.ErrorList{field.NotSupported(path.Child("kind"), subject.Kind, known)}
	}
	var errs field.ErrorList
	for _, member := range members {
		at := path.Child(member.name)
		switch {
		case member.kind == subject.Kind && member.set:
			errs = append(errs, member.validate(at)...)
		case member.kind == subject.Kind:
			errs = append(errs, field.Required(at, "is required when subject kind is '"+string(member.kind)+"'"))
		case member.set:
			errs = append(errs, field.Forbidden(at, "is forbidden when subject kind is not '"+string(member.kind)+"'"))
		}
	}
	return errs
}

func requireName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path.Child("name"), "")}
	}
	return nil
}

func validateServiceAccount(account *flowcontrolv1.ServiceAccountSubject, path *field.Path) field.ErrorList {
	errs := requireName(account.Name, path)
	if account.Name != "" && account.Name != everything {
		for _, message := range validation.ValidateServiceAccountName(account.Name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), account.Name, message))
		}
	}
	if account.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), "a service account is one of a namespace"))
	}
	for _, message := range validation.ValidateNamespaceName(account.Namespace, false) {
		errs = append(errs, field.Invalid(path.Child("namespace"), account.Namespace, message))
	}
	return errs
}

// validateVerbs knows the verbs of resources. Of other paths' verbs it accepts only those that resources have, too, and '*'.
func validateVerbs(verbs []string, path *field.Path) field.ErrorList {
	known := []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}
	errs := validateSet(verbs, path, nil)
	if len(errs) == 0 && !slices.Contains(verbs, everything) && slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(known, verb) }) {
		errs = append(errs, field.NotSupported(path, verbs, known))
	}
	return errs
}

// validateSet wants '*' alone, or some members and each of them to be good.
func validateSet(members []string, path *field.Path, validate func(member string) []string) field.ErrorList {
	if len(members) == 0 {
		return field.ErrorList{field.Required(path, "must contain at least one value")}
	}
	if slices.Contains(members, everything) {
		if len(members) > 1 {
			return field.ErrorList{field.Invalid(path, members, "if '*' is present, must not specify others")}
		}
		return nil
	}
	if validate == nil {
		return nil
	}
	var errs field.ErrorList
	for i, member := range members {
		for _, message := range validate(member) {
			errs = append(errs, field.Invalid(path.Index(i), member, message))
		}
	}
	return errs
}

func validateNamespace(name string) []string { return validation.ValidateNamespaceName(name, false) }

func validateURLPath(path string) []string {
	switch {
	case path == "":
		return []string{"must not be empty"}
	case !strings.HasPrefix(path, "/"):
		return []string{"must start with a slash"}
	case strings.Contains(path, " ") || strings.Contains(path, "//"):
		return []string{"must contain neither spaces nor two slashes in a row"}
	}
	if star := strings.Index(path, everything); star >= 0 && (star != len(path)-1 || !strings.HasSuffix(path, "/*")) {
		return []string{"must have '*' only as its last segment"}
	}
	return nil
}
