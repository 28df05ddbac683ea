// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authorization

import (
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func invalid(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(GroupVersion.WithKind(kind).GroupKind(), "", errs)
}

func validateSubject(spec authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	if spec.User == "" && len(spec.Groups) == 0 {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified")}
	}
	return nil
}

func validateAttributes(res *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("spec")
	if (res == nil) == (path == nil) {
		errs = append(errs, field.Invalid(at, "", "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	if res == nil {
		return errs
	}
	at = at.Child("resourceAttributes")
	// Operators that are not known are accepted, since clients may be newer: leaving a requirement out asks for more.
	if selector := res.FieldSelector; selector != nil {
		path := at.Child("fieldSelector")
		errs = append(errs, validateSelector(path, selector.RawSelector, len(selector.Requirements))...)
		for i, requirement := range selector.Requirements {
			errs = append(errs, metavalidation.ValidateFieldSelectorRequirement(requirement,
				metavalidation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	if selector := res.LabelSelector; selector != nil {
		path := at.Child("labelSelector")
		errs = append(errs, validateSelector(path, selector.RawSelector, len(selector.Requirements))...)
		for i, requirement := range selector.Requirements {
			errs = append(errs, metavalidation.ValidateLabelSelectorRequirement(requirement,
				metavalidation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	return errs
}

func validateSelector(at *field.Path, raw string, requirements int) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(at.Child("rawSelector"), raw, "may not be specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(at.Child("requirements"), "requirements or rawSelector is required")}
	}
	return nil
}

// validateMetadata wants a question to have none, for nothing is stored.
func validateMetadata(given metav1.ObjectMeta) field.ErrorList {
	given.ManagedFields = nil
	if !equality.Semantic.DeepEqual(given, metav1.ObjectMeta{}) {
		return field.ErrorList{field.Invalid(field.NewPath("metadata"), given, "must be empty, apart from the namespace of namespaced kinds")}
	}
	return nil
}

func subjectOf(spec authorizationv1.SubjectAccessReviewSpec) user.Info {
	info := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for key, values := range spec.Extra {
		if info.Extra == nil {
			info.Extra = map[string][]string{}
		}
		info.Extra[key] = values
	}
	return info
}

func attributesOf(who user.Info, res *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) authorizer.Attributes {
	if res == nil {
		return authorizer.AttributesRecord{User: who, Verb: path.Verb, Path: path.Path}
	}
	out := authorizer.AttributesRecord{
		User: who, Verb: res.Verb, Namespace: res.Namespace, APIGroup: res.Group, APIVersion: res.Version,
		Resource: res.Resource, Subresource: res.Subresource, Name: res.Name, ResourceRequest: true,
	}
	if out.APIVersion == "" {
		out.APIVersion = "*"
	}
	// A selector narrows what is asked for. One that cannot be understood is left out, which asks for more.
	if selector := res.LabelSelector; selector != nil {
		out.LabelSelectorRequirements, out.LabelSelectorParsingErr = labelRequirements(selector)
	}
	if selector := res.FieldSelector; selector != nil {
		out.FieldSelectorRequirements, out.FieldSelectorParsingErr = fieldRequirements(selector)
	}
	return out
}

func labelRequirements(selector *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if selector.RawSelector != "" {
		parsed, err := labels.Parse(selector.RawSelector)
		if err != nil {
			return nil, err
		}
		requirements, _ := parsed.Requirements()
		return requirements, nil
	}
	operators := map[metav1.LabelSelectorOperator]selection.Operator{
		metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
		metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	var out labels.Requirements
	var errs []error
	for _, wanted := range selector.Requirements {
		operator, ok := operators[wanted.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", wanted.Operator))
			continue
		}
		requirement, err := labels.NewRequirement(wanted.Key, operator, wanted.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, *requirement)
	}
	return out, errors.Join(errs...)
}

func fieldRequirements(selector *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if selector.RawSelector != "" {
		parsed, err := fields.ParseSelector(selector.RawSelector)
		if err != nil {
			return nil, err
		}
		return parsed.Requirements(), nil
	}
	operators := map[metav1.FieldSelectorOperator]selection.Operator{
		metav1.FieldSelectorOpIn: selection.Equals, metav1.FieldSelectorOpNotIn: selection.NotEquals,
	}
	var out fields.Requirements
	var errs []error
	for _, wanted := range selector.Requirements {
		operator, ok := operators[wanted.Operator]
		if !ok || len(wanted.Values) != 1 {
			errs = append(errs, fmt.Errorf("field selectors take the operators In and NotIn with one value, not %s with %d", wanted.Operator, len(wanted.Values)))
			continue
		}
		out = append(out, fields.Requirement{Field: wanted.Key, Operator: operator, Value: wanted.Values[0]})
	}
	return out, errors.Join(errs...)
}
