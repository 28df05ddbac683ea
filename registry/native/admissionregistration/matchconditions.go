// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
)

const maxMatchConditions = 64

// compile tells what is wrong with an expression.
type compile func(expression string, path *field.Path) field.ErrorList

// matchCondition compiles the conditions of a webhook or, with params, of a policy that has a kind of parameters. What is in stored
// was valid once and stays so.
func (l *language) matchCondition(params bool, stored sets.Set[string]) compile {
	return func(expression string, path *field.Path) field.ErrorList {
		variables := plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true}
		return validateExpression(l.compiler(), &matchconditions.MatchCondition{Expression: expression}, variables, stored.Has(expression), path)
	}
}

// validateMatchConditions judges the conditions that a request has to meet besides rules and selectors.
func validateMatchConditions(conditions []admissionregistrationv1.MatchCondition, compile compile, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(conditions) > maxMatchConditions {
		errs = append(errs, field.TooMany(path, len(conditions), maxMatchConditions))
	}
	names := sets.New[string]()
	for i, condition := range conditions {
		expression, name := path.Index(i).Child("expression"), path.Index(i).Child("name")
		if trimmed := strings.TrimSpace(condition.Expression); trimmed == "" {
			errs = append(errs, field.Required(expression, ""))
		} else {
			errs = append(errs, compile(trimmed, expression)...)
		}
		if condition.Name == "" {
			errs = append(errs, field.Required(name, ""))
			continue
		}
		for _, message := range validation.IsQualifiedName(condition.Name) {
			errs = append(errs, field.Invalid(name, condition.Name, message))
		}
		if names.Has(condition.Name) {
			errs = append(errs, field.Duplicate(name, condition.Name))
		}
		names.Insert(condition.Name)
	}
	return errs
}

// expressionsOf lists what the conditions compile.
func expressionsOf(conditions []admissionregistrationv1.MatchCondition) []string {
	var out []string
	for _, condition := range conditions {
		out = append(out, strings.TrimSpace(condition.Expression))
	}
	return out
}
