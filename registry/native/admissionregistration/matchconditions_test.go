// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// recorder tells what it was asked to compile, and how.
type recorder map[string]environment.Type

func (r recorder) CompileCELExpression(expression plugincel.ExpressionAccessor, _ plugincel.OptionalVariableDeclarations, mode environment.Type) plugincel.CompilationResult {
	r[expression.GetExpression()] = mode
	return plugincel.CompilationResult{}
}

// TestStoredExpressionsAreCompiledAsSuch keeps a policy that a later version let in alive after a server was rolled back.
func TestStoredExpressionsAreCompiledAsSuch(t *testing.T) {
	t.Parallel()
	conditions := func(expressions ...string) []webhook {
		hook := webhook{}
		for _, expression := range expressions {
			hook.MatchConditions = append(hook.MatchConditions, admissionregistrationv1.MatchCondition{Name: expression, Expression: expression})
		}
		return []webhook{hook}
	}
	for name, tc := range map[string]struct {
		hooks []webhook
		want  recorder
	}{
		"unchanged":             {conditions("old", "older "), recorder{}},
		"a new one":             {conditions("old", "new"), recorder{"old": environment.StoredExpressions, "new": environment.NewExpressions}},
		"spaces do not matter":  {conditions(" older"), recorder{"older": environment.StoredExpressions}},
		"moved to another hook": {append(conditions(), conditions("older")...), recorder{"older": environment.StoredExpressions}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := recorder{}
			validateWebhooks(tc.hooks, &language{func() plugincel.Compiler { return got }}, allowancesFor(tc.hooks, conditions("old", "older ")))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestNothingIsCompiledWithoutExpressions(t *testing.T) {
	t.Parallel()
	cel := &language{func() plugincel.Compiler {
		t.Error("the environments were made, which cost every control plane time and memory")
		return recorder{}
	}}
	configuration := &validatingConfiguration{Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "a"}}}
	kind := validatingWebhooks(cel)
	kind.Default(configuration)
	kind.Validate(configuration)
	kind.ValidateUpdate(configuration, configuration)
}
