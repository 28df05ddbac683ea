// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// language compiles the CEL of the group's kinds.
type language struct {
	// compiler knows no variables but those of the apiserver. Many control planes never see an expression, and its environments cost
	// memory and time, so that it is made for the first one.
	compiler func() plugincel.Compiler
}

func newLanguage() *language {
	return &language{compiler: sync.OnceValue(func() plugincel.Compiler { return plugincel.NewCompiler(environments()) })}
}

// environments hold what the version before this one knows too, so that a server that is rolled back understands what was stored, and
// what expressions that are stored already may use beyond that.
func environments() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
}

// validateExpression compiles an expression with the variables it may use; stored tells that the object had it before.
func validateExpression(
	compiler plugincel.Compiler, expression plugincel.ExpressionAccessor, variables plugincel.OptionalVariableDeclarations, stored bool, path *field.Path,
) field.ErrorList {
	if result := compiler.CompileCELExpression(expression, variables, modeOf(stored)); result.Error != nil {
		return field.ErrorList{expressionError(result.Error, expression, path)}
	}
	return nil
}

// modeOf lets an expression that is stored already use what the version before this one does not know.
func modeOf(stored bool) environment.Type {
	if stored {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// expressionError tells in the terms of validation why an expression does not compile.
func expressionError(err error, expression plugincel.ExpressionAccessor, path *field.Path) *field.Error {
	var compilation *apiservercel.Error
	if errors.As(err, &compilation) {
		switch compilation.Type {
		case apiservercel.ErrorTypeRequired:
			return field.Required(path, compilation.Detail)
		case apiservercel.ErrorTypeInvalid:
			return field.Invalid(path, expression.GetExpression(), compilation.Detail)
		}
	}
	return field.InternalError(path, fmt.Errorf("compile the expression: %w", err))
}
