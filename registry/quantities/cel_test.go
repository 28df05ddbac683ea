// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package quantities

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// TestQuantitiesInCELAreLimited evaluates in the environment that upstream's compilers extend. Unlimited, the exponents in it do not end
// within the test's time.
func TestQuantitiesInCELAreLimited(t *testing.T) {
	t.Parallel()
	if err := LimitCEL(); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("9", maxLength+1)
	const exponent, length = "exponent that is out of range", "at most 64"
	for expression, want := range map[string]struct {
		result bool
		err    string
	}{
		// Literals are evaluated like variables, not when a program is built.
		"quantity('1e1000000000').isGreaterThan(quantity('1'))":                       {err: exponent},
		"quantity('1').isLessThan(quantity('-1E+1000000000'))":                        {err: exponent},
		"quantity('1e-1000000000') == quantity('0')":                                  {err: exponent},
		"quantity(large).isGreaterThan(quantity('1'))":                                {err: exponent},
		"quantity(small).isGreaterThan(quantity('1'))":                                {err: exponent},
		"[small].all(each, quantity(each).isInteger())":                               {err: exponent},
		"quantity(long).isInteger()":                                                  {err: length},
		"isQuantity(large)":                                                           {},
		"isQuantity('1e-1000000000')":                                                 {},
		"isQuantity(long)":                                                            {},
		"isQuantity('none')":                                                          {},
		"quantity('none').isInteger()":                                                {err: "quantities must match"},
		"quantity(one).isInteger()":                                                   {err: "no such overload"},
		"isQuantity(one)":                                                             {err: "no such overload"},
		"isQuantity('1500m')":                                                         {result: true},
		"isQuantity('1e30')":                                                          {result: true},
		"quantity('1.5Gi') == quantity('1536Mi')":                                     {result: true},
		"quantity('1e30').isGreaterThan(quantity('1e-30'))":                           {result: true},
		"quantity('50k').add(20).sub(quantity('100k')).sub(-50000).asInteger() == 20": {result: true},
	} {
		base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
		for name, base := range map[string]*cel.Env{"new": base.NewExpressionsEnv(), "stored": base.StoredExpressionsEnv()} {
			env, err := base.Extend(cel.Variable("large", cel.StringType), cel.Variable("small", cel.DynType), cel.Variable("long", cel.DynType), cel.Variable("one", cel.DynType))
			if err != nil {
				t.Fatal(err)
			}
			compiled, issues := env.Compile(expression)
			if issues.Err() != nil {
				t.Fatalf("%s expression %s: %v", name, expression, issues.Err())
			}
			program, err := env.Program(compiled)
			if err != nil {
				t.Fatalf("%s expression %s: %v", name, expression, err)
			}
			result, details, err := program.Eval(map[string]any{"large": "1e1000000000", "small": "1e-1000000000", "long": long, "one": 1})
			switch {
			case want.err == "" && (err != nil || result.Value() != want.result):
				t.Errorf("%s expression %s: got %v and error %v, want %t", name, expression, result, err, want.result)
			case want.err != "" && (err == nil || !strings.Contains(err.Error(), want.err)):
				t.Errorf("%s expression %s: got %v and error %v, want an error with %q", name, expression, result, err, want.err)
			case *details.ActualCost() == 0:
				t.Errorf("%s expression %s costs nothing", name, expression)
			}
		}
	}
}
