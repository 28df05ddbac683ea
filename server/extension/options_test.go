// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/rest"
)

// TestQuantitiesInPoliciesOfTheHostAreLimited evaluates in the environment that policies and match conditions extend.
func TestQuantitiesInPoliciesOfTheHostAreLimited(t *testing.T) {
	t.Parallel()
	o := NewOptions()
	o.Host.Config = &rest.Config{Host: "https://" + closedAddress(t)}
	if _, err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	compiled, issues := env.Compile("quantity('1e1000000000').isInteger()")
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(compiled)
	if err != nil {
		t.Fatal(err)
	}
	if result, _, err := program.Eval(cel.NoVars()); err == nil || !strings.Contains(err.Error(), "exponent that is out of range") {
		t.Errorf("got %v and error %v, want the exponent refused", result, err)
	}
}
