// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
)

// expressions judge the CEL of one policy.
type expressions struct {
	language *language
	// stored are those that the policy had before.
	stored sets.Set[string]
	// params is whether the policy has parameters.
	params bool
	// composed knows the variables that the policy has declared so far. Nil means that it declares none.
	composed *plugincel.CompositedCompiler
}

// compose lets the policy use variables.
func (e *expressions) compose() error {
	compiler, err := plugincel.NewCompositedCompiler(environments())
	if err != nil {
		return fmt.Errorf("make an environment for the variables of a policy: %w", err)
	}
	e.composed = compiler
	return nil
}

func (e *expressions) compiler() plugincel.Compiler {
	if e.composed != nil {
		return e.composed
	}
	return e.language.compiler()
}

// compile judges an expression that the policy has as text. What it uses beside the object and the request is given.
func (e *expressions) compile(expression plugincel.ExpressionAccessor, text string, uses plugincel.OptionalVariableDeclarations, path *field.Path) field.ErrorList {
	uses.HasParams = e.params
	return validateExpression(e.compiler(), expression, uses, e.stored.Has(text), path)
}

func (e *expressions) validation(text string, path *field.Path) field.ErrorList {
	return e.compile(&validating.ValidationCondition{Expression: text}, text, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, path)
}

// message judges what makes a message, for which no authorization can be asked.
func (e *expressions) message(text string, path *field.Path) field.ErrorList {
	return e.compile(&validating.MessageExpressionCondition{MessageExpression: text}, text, plugincel.OptionalVariableDeclarations{}, path)
}

func (e *expressions) auditAnnotation(text string, path *field.Path) field.ErrorList {
	annotation := &validating.AuditAnnotationCondition{ValueExpression: strings.TrimSpace(text)}
	return e.compile(annotation, text, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, path)
}

func (e *expressions) applyConfiguration(text string, path *field.Path) field.ErrorList {
	configuration := &patch.ApplyConfigurationCondition{Expression: strings.TrimSpace(text)}
	return e.compile(configuration, text, plugincel.OptionalVariableDeclarations{HasAuthorizer: true, HasPatchTypes: true}, path)
}

func (e *expressions) jsonPatch(text string, path *field.Path) field.ErrorList {
	operations := &patch.JSONPatchCondition{Expression: strings.TrimSpace(text)}
	return e.compile(operations, text, plugincel.OptionalVariableDeclarations{HasAuthorizer: true, HasPatchTypes: true}, path)
}

// validateVariables judges variables in their order: each knows those before it, and what is judged afterwards knows all.
func (e *expressions) validateVariables(variables []admissionregistrationv1.Variable, path *field.Path) field.ErrorList {
	if len(variables) > 0 && e.composed == nil {
		if err := e.compose(); err != nil {
			return field.ErrorList{field.InternalError(path, err)}
		}
	}
	var errs field.ErrorList
	for i := range variables {
		variable, name, expression := variables[i], path.Index(i).Child("name"), path.Index(i).Child("expression")
		switch {
		case blank(variable.Name):
			errs = append(errs, field.Required(name, "name is not specified"))
		case !isIdentifier(variable.Name):
			errs = append(errs, field.Invalid(name, variable.Name, "must be a valid CEL identifier"))
		}
		if blank(variable.Expression) {
			errs = append(errs, field.Required(expression, "expression is not specified"))
			continue
		}
		errs = append(errs, e.declare(&validating.Variable{Name: variable.Name, Expression: variable.Expression}, expression)...)
	}
	return errs
}

// declare judges a variable. One that does not compile is declared as well, so that its users are not refused for it.
func (e *expressions) declare(variable *validating.Variable, path *field.Path) field.ErrorList {
	uses := plugincel.OptionalVariableDeclarations{HasParams: e.params, HasAuthorizer: true}
	result := e.composed.CompileAndStoreVariable(variable, uses, modeOf(e.stored.Has(variable.Expression)))
	if result.Error != nil {
		return field.ErrorList{expressionError(result.Error, variable, path)}
	}
	return nil
}

// isIdentifier tells whether CEL takes a word for a name.
func isIdentifier(word string) bool {
	reserved := []string{
		"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
		"let", "loop", "package", "namespace", "return", "var", "void", "while",
	}
	for i, letter := range word {
		alphabetic := letter == '_' || 'a' <= letter && letter <= 'z' || 'A' <= letter && letter <= 'Z'
		if !alphabetic && (i == 0 || letter < '0' || letter > '9') {
			return false
		}
	}
	return word != "" && !slices.Contains(reserved, word)
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }
