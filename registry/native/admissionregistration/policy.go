// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// policy is what policies of both kinds have.
type policy struct {
	failurePolicy *admissionregistrationv1.FailurePolicyType
	paramKind     *admissionregistrationv1.ParamKind
	constraints   *admissionregistrationv1.MatchResources
	conditions    []admissionregistrationv1.MatchCondition
	variables     []admissionregistrationv1.Variable
}

// validate judges it. Match conditions that the old one, if any, has as well are left alone: what is stored stays acceptable.
func (p policy) validate(old *policy, e *expressions, path *field.Path) field.ErrorList {
	errs := validateRequiredChoice(p.failurePolicy, path.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore)
	errs = append(errs, validateParamKind(p.paramKind, path.Child("paramKind"))...)
	constraints := path.Child("matchConstraints")
	switch {
	case p.constraints == nil:
		errs = append(errs, field.Required(constraints, ""))
	case len(p.constraints.ResourceRules) == 0:
		errs = append(errs, field.Required(constraints.Child("resourceRules"), ""))
	}
	errs = append(errs, validateMatchResources(p.constraints, constraints)...)
	if old == nil || !equality.Semantic.DeepEqual(p.paramKind, old.paramKind) || !equality.Semantic.DeepEqual(p.conditions, old.conditions) {
		compile := e.language.matchCondition(e.params, e.stored)
		errs = append(errs, validateMatchConditions(p.conditions, compile, path.Child("matchConditions"))...)
	}
	return append(errs, e.validateVariables(p.variables, path.Child("variables"))...)
}

// expressions are those that both kinds have.
func (p policy) expressions() []string {
	all := expressionsOf(p.conditions)
	for _, variable := range p.variables {
		all = append(all, variable.Expression)
	}
	return all
}

func paramKindCell(kind *admissionregistrationv1.ParamKind) any {
	if kind == nil {
		return unset
	}
	return kind.APIVersion + "/" + kind.Kind
}

// unset is shown where an object leaves something out.
const unset = "<unset>"
