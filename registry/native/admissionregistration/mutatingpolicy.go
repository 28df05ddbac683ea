// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/resource"
)

const mutatingPolicies = "mutatingadmissionpolicies"

func mutatingAdmissionPolicies(cel *language, params parameters) resource.Kind[*admissionregistrationv1.MutatingAdmissionPolicy] {
	return resource.Kind[*admissionregistrationv1.MutatingAdmissionPolicy]{
		Plural: mutatingPolicies, Singular: "mutatingadmissionpolicy", Categories: categories(), Scope: resource.Cluster,
		NewList:     func() runtime.Object { return &admissionregistrationv1.MutatingAdmissionPolicyList{} },
		Generations: resource.CountGenerations,
		Default: func(policy *admissionregistrationv1.MutatingAdmissionPolicy) {
			defaultPointer(&policy.Spec.FailurePolicy, admissionregistrationv1.Fail)
			defaultMatchResources(policy.Spec.MatchConstraints)
		},
		Validate: func(policy *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
			return append(validateReservedName(policy), validateMutatingPolicy(cel, policy, nil)...)
		},
		ValidateUpdate: func(policy, old *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
			return append(validateStoredMeta(policy), validateMutatingPolicy(cel, policy, old)...)
		},
		Authorize: func(ctx context.Context, policy, old *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
			return params.authorizePolicy(ctx, commonOfMutating(policy), commonOfMutating(old))
		},
		Columns: []resource.Column[*admissionregistrationv1.MutatingAdmissionPolicy]{
			{
				Name: "Mutations", Type: "integer", Description: "Mutation indicates the number of mutations rules defined in this configuration",
				Of: func(policy *admissionregistrationv1.MutatingAdmissionPolicy) any {
					return int64(len(policy.Spec.Mutations))
				},
			},
			{
				Name: "ParamKind", Description: "ParamKind specifies the kind of resources used to parameterize this policy",
				Of: func(policy *admissionregistrationv1.MutatingAdmissionPolicy) any {
					return paramKindCell(policy.Spec.ParamKind)
				},
			},
		},
	}
}

func commonOfMutating(obj *admissionregistrationv1.MutatingAdmissionPolicy) *policy {
	if obj == nil {
		return nil
	}
	return &policy{obj.Spec.FailurePolicy, obj.Spec.ParamKind, obj.Spec.MatchConstraints, obj.Spec.MatchConditions, obj.Spec.Variables}
}

func validateMutatingPolicy(cel *language, obj, old *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
	path, spec := field.NewPath("spec"), obj.Spec
	e := &expressions{language: cel, params: spec.ParamKind != nil, stored: storedInMutating(old)}
	// Mutations may ask for variables even where a policy declares none.
	if err := e.compose(); err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	errs := commonOfMutating(obj).validate(commonOfMutating(old), e, path)
	errs = append(errs, validateMutableOperations(spec.MatchConstraints, path.Child("matchConstraints"))...)
	mutations := path.Child("mutations")
	if len(spec.Mutations) == 0 {
		errs = append(errs, field.Required(mutations, "mutations must contain at least one item"))
	}
	for i := range spec.Mutations {
		errs = append(errs, e.validateMutation(&spec.Mutations[i], mutations.Index(i))...)
	}
	reinvocation := path.Child("reinvocationPolicy")
	if spec.ReinvocationPolicy == "" {
		return append(errs, field.Required(reinvocation, ""))
	}
	return append(errs, validateChoice(&spec.ReinvocationPolicy, reinvocation,
		admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)...)
}

// storedInMutating returns the expressions of a policy that is stored, if there is one.
func storedInMutating(old *admissionregistrationv1.MutatingAdmissionPolicy) sets.Set[string] {
	if old == nil {
		return nil
	}
	stored := sets.New(commonOfMutating(old).expressions()...)
	for _, mutation := range old.Spec.Mutations {
		if mutation.ApplyConfiguration != nil {
			stored.Insert(mutation.ApplyConfiguration.Expression)
		}
		if mutation.JSONPatch != nil {
			stored.Insert(mutation.JSONPatch.Expression)
		}
	}
	return stored
}

// validateMutation wants exactly the member that the patch type names.
func (e *expressions) validateMutation(mutation *admissionregistrationv1.Mutation, path *field.Path) field.ErrorList {
	apply, jsonPatch := path.Child("applyConfiguration"), path.Child("jsonPatch")
	var errs field.ErrorList
	switch mutation.PatchType {
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		if mutation.JSONPatch != nil {
			errs = append(errs, field.Invalid(jsonPatch, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
		if mutation.ApplyConfiguration == nil {
			return append(errs, field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		}
		return append(errs, validatePatch(mutation.ApplyConfiguration.Expression, e.applyConfiguration, apply.Child("expression"))...)
	case admissionregistrationv1.PatchTypeJSONPatch:
		if mutation.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
		if mutation.JSONPatch == nil {
			return append(errs, field.Required(jsonPatch, "must be specified when patchType is JSONPatch"))
		}
		return append(errs, validatePatch(mutation.JSONPatch.Expression, e.jsonPatch, jsonPatch.Child("expression"))...)
	case "":
		return field.ErrorList{field.Required(path.Child("patchType"), "")}
	default:
		return validateChoice(&mutation.PatchType, path.Child("patchType"),
			admissionregistrationv1.PatchTypeApplyConfiguration, admissionregistrationv1.PatchTypeJSONPatch)
	}
}

func validatePatch(expression string, compile func(string, *field.Path) field.ErrorList, path *field.Path) field.ErrorList {
	if blank(expression) {
		return field.ErrorList{field.Required(path, "")}
	}
	return compile(expression, path)
}
