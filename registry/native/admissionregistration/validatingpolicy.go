// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"

	"github.com/kube-annex/annex/registry/resource"
)

const (
	validatingPolicies = "validatingadmissionpolicies"

	maxAuditAnnotations = 20
	// maxValueExpression is in bytes.
	maxValueExpression = 5 * 1024
)

func validatingAdmissionPolicies(cel *language, params parameters) resource.Kind[*admissionregistrationv1.ValidatingAdmissionPolicy] {
	return resource.Kind[*admissionregistrationv1.ValidatingAdmissionPolicy]{
		Plural: validatingPolicies, Singular: "validatingadmissionpolicy", Categories: categories(), Scope: resource.Cluster,
		NewList: func() runtime.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyList{} },
		Default: func(policy *admissionregistrationv1.ValidatingAdmissionPolicy) {
			defaultPointer(&policy.Spec.FailurePolicy, admissionregistrationv1.Fail)
			defaultMatchResources(policy.Spec.MatchConstraints)
		},
		Validate: func(policy *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
			return append(validateReservedName(policy), validateValidatingPolicy(cel, policy, nil)...)
		},
		ValidateUpdate: func(policy, old *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
			return append(validateStoredMeta(policy), validateValidatingPolicy(cel, policy, old)...)
		},
		ValidateStatusUpdate: func(policy, _ *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
			return validatePolicyStatus(policy.Status, field.NewPath("status"))
		},
		Authorize: func(ctx context.Context, policy, old *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
			return params.authorizePolicy(ctx, commonOfValidating(policy), commonOfValidating(old))
		},
		Columns: []resource.Column[*admissionregistrationv1.ValidatingAdmissionPolicy]{
			{
				Name: "Validations", Type: "integer", Description: "Validations indicates the number of validation rules defined in this configuration",
				Of: func(policy *admissionregistrationv1.ValidatingAdmissionPolicy) any {
					return int64(len(policy.Spec.Validations))
				},
			},
			{
				Name: "ParamKind", Description: "ParamKind specifies the kind of resources used to parameterize this policy",
				Of: func(policy *admissionregistrationv1.ValidatingAdmissionPolicy) any {
					return paramKindCell(policy.Spec.ParamKind)
				},
			},
		},
	}
}

func commonOfValidating(obj *admissionregistrationv1.ValidatingAdmissionPolicy) *policy {
	if obj == nil {
		return nil
	}
	return &policy{obj.Spec.FailurePolicy, obj.Spec.ParamKind, obj.Spec.MatchConstraints, obj.Spec.MatchConditions, obj.Spec.Variables}
}

func validateValidatingPolicy(cel *language, obj, old *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	path, spec := field.NewPath("spec"), obj.Spec
	e := &expressions{language: cel, params: spec.ParamKind != nil, stored: storedInValidating(old)}
	errs := commonOfValidating(obj).validate(commonOfValidating(old), e, path)
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const message = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(path.Child("validations"), message), field.Required(path.Child("auditAnnotations"), message))
	}
	for i := range spec.Validations {
		errs = append(errs, e.validateValidation(&spec.Validations[i], path.Child("validations").Index(i))...)
	}
	return append(errs, e.validateAuditAnnotations(obj.Name, spec.AuditAnnotations, path.Child("auditAnnotations"))...)
}

// storedInValidating returns the expressions of a policy that is stored, if there is one.
func storedInValidating(old *admissionregistrationv1.ValidatingAdmissionPolicy) sets.Set[string] {
	if old == nil {
		return nil
	}
	stored := sets.New(commonOfValidating(old).expressions()...)
	for _, validation := range old.Spec.Validations {
		stored.Insert(validation.Expression, validation.MessageExpression)
	}
	for _, annotation := range old.Spec.AuditAnnotations {
		stored.Insert(annotation.ValueExpression)
	}
	return stored
}

func (e *expressions) validateValidation(v *admissionregistrationv1.Validation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if blank(v.Expression) {
		errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	} else {
		errs = append(errs, e.validation(v.Expression, path.Child("expression"))...)
	}
	switch {
	case v.MessageExpression == "":
	case blank(v.MessageExpression):
		errs = append(errs, field.Invalid(path.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified"))
	default:
		errs = append(errs, e.message(v.MessageExpression, path.Child("messageExpression"))...)
	}
	switch {
	case v.Message == "":
	case blank(v.Message):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must be non-empty if specified"))
	case strings.ContainsAny(strings.TrimSpace(v.Message), "\n\r"):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must not contain line breaks"))
	}
	return append(errs, validateChoice(v.Reason, path.Child("reason"),
		metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)...)
}

func (e *expressions) validateAuditAnnotations(policy string, annotations []admissionregistrationv1.AuditAnnotation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(annotations) > maxAuditAnnotations {
		errs = append(errs, field.Invalid(path, len(annotations), fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations)))
	}
	keys := sets.New[string]()
	for i := range annotations {
		annotation, key := &annotations[i], path.Index(i).Child("key")
		// In the audit log the key stands behind the policy's name.
		for _, message := range validation.IsQualifiedName(policy + "/" + annotation.Key) {
			errs = append(errs, field.Invalid(key, annotation.Key, message))
		}
		if keys.Has(annotation.Key) {
			errs = append(errs, field.Duplicate(key, annotation.Key))
		}
		keys.Insert(annotation.Key)
		errs = append(errs, e.validateValueExpression(annotation.ValueExpression, path.Index(i).Child("valueExpression"))...)
	}
	return errs
}

func (e *expressions) validateValueExpression(expression string, path *field.Path) field.ErrorList {
	switch trimmed := strings.TrimSpace(expression); {
	case trimmed == "":
		return field.ErrorList{field.Required(path, "valueExpression is not specified")}
	case len(trimmed) > maxValueExpression:
		// That it is required and not too long is upstream's answer.
		return field.ErrorList{field.Required(path, fmt.Sprintf("must not exceed %d bytes in length", maxValueExpression))}
	default:
		return e.auditAnnotation(expression, path)
	}
}

func validatePolicyStatus(status admissionregistrationv1.ValidatingAdmissionPolicyStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if status.TypeChecking != nil {
		for i, warning := range status.TypeChecking.ExpressionWarnings {
			at := path.Child("typeChecking", "expressionWarnings").Index(i)
			if warning.Warning == "" {
				errs = append(errs, field.Required(at.Child("warning"), ""))
			}
			errs = append(errs, validateFieldReference(warning.FieldRef, at.Child("fieldRef"))...)
		}
	}
	return append(errs, metav1validation.ValidateConditions(status.Conditions, path.Child("conditions"))...)
}

func validateFieldReference(ref string, path *field.Path) field.ErrorList {
	if blank(ref) {
		return field.ErrorList{field.Required(path, "")}
	}
	if err := jsonpath.New("spec").Parse("{" + strings.TrimSpace(ref) + "}"); err != nil {
		return field.ErrorList{field.Invalid(path, ref, fmt.Sprintf("invalid JSONPath: %v", err))}
	}
	return nil
}
