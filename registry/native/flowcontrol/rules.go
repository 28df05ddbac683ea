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
		errs = append(errs, validateVerbs(resources.Verbs, at)...)
		errs = append(errs, validateSet(resources.APIGroups, at.Child("apiGroups"))...)
		errs = append(errs, validateSet(resources.Resources, at.Child("resources"))...)
		errs = append(errs, validateNamespaces(resources, at.Child("namespaces"))...)
	}
	for i, paths := range rule.NonResourceRules {
		at := path.Child("nonResourceRules").Index(i)
		errs = append(errs, validateVerbs(paths.Verbs, at)...)
		errs = append(errs, validateSet(paths.NonResourceURLs, at.Child("nonResourceURLs"))...)
		for j, url := range paths.NonResourceURLs {
			star := strings.Index(url, everything)
			if url != everything && (!strings.HasPrefix(url, "/") || star >= 0 && !strings.HasSuffix(url, "/*")) {
				errs = append(errs, field.Invalid(at.Child("nonResourceURLs").Index(j), url, "must be '*', or start with '/' and have '*' only as its last segment"))
			}
		}
	}
	return errs
}

// validateSubject wants exactly the member that the subject's kind names.
func validateSubject(subject flowcontrolv1.Subject, path *field.Path) field.ErrorList {
	members := []struct {
		kind flowcontrolv1.SubjectKind
		name string
		set  bool
		ok   func() bool
	}{
		{flowcontrolv1.SubjectKindUser, "user", subject.User != nil, func() bool { return subject.User.Name != "" }},
		{flowcontrolv1.SubjectKindGroup, "group", subject.Group != nil, func() bool { return subject.Group.Name != "" }},
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", subject.ServiceAccount != nil, func() bool {
			return subject.ServiceAccount.Name != "" && subject.ServiceAccount.Namespace != ""
		}},
	}
	var errs field.ErrorList
	known := false
	for _, member := range members {
		at := path.Child(member.name)
		switch {
		case member.kind != subject.Kind && member.set:
			errs = append(errs, field.Forbidden(at, "is forbidden when subject kind is not '"+string(member.kind)+"'"))
		case member.kind != subject.Kind:
		case !member.set:
			errs = append(errs, field.Required(at, "is required when subject kind is '"+string(member.kind)+"'"))
		case !member.ok():
			errs = append(errs, field.Required(at.Child("name"), "name, and for a service account namespace, must be set"))
		}
		known = known || member.kind == subject.Kind
	}
	if !known {
		errs = append(errs, field.NotSupported(path.Child("kind"), subject.Kind, []flowcontrolv1.SubjectKind{
			flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser,
		}))
	}
	return errs
}

func validateVerbs(verbs []string, path *field.Path) field.ErrorList {
	known := []string{"get", "list", "create", "update", "delete", "deletecollection", "watch", "patch", "head", "post", "put", "options", "connect", "proxy", everything}
	errs := validateSet(verbs, path.Child("verbs"))
	for _, verb := range verbs {
		if !slices.Contains(known, verb) {
			errs = append(errs, field.NotSupported(path.Child("verbs"), verb, known))
		}
	}
	return errs
}

// validateSet wants some members, or '*' alone.
func validateSet(members []string, path *field.Path) field.ErrorList {
	switch {
	case len(members) == 0:
		return field.ErrorList{field.Required(path, "must contain at least one value")}
	case len(members) > 1 && slices.Contains(members, everything):
		return field.ErrorList{field.Invalid(path, members, "if '*' is present, must not specify others")}
	}
	return nil
}

func validateNamespaces(rule flowcontrolv1.ResourcePolicyRule, path *field.Path) field.ErrorList {
	if len(rule.Namespaces) == 0 && rule.ClusterScope {
		return nil
	}
	errs := validateSet(rule.Namespaces, path)
	for i, namespace := range rule.Namespaces {
		if namespace == everything {
			continue
		}
		for _, message := range validation.ValidateNamespaceName(namespace, false) {
			errs = append(errs, field.Invalid(path.Index(i), namespace, message))
		}
	}
	return errs
}
