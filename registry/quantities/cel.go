// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package quantities

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// LimitCEL limits the text that quantity() and isQuantity() read in expressions. Upstream parses any text for 1 unit of cost, and a
// deadline does not interrupt a call.
//
// All expressions of k8s.io/apiserver and k8s.io/apiextensions-apiserver extend one environment, which the library caches for the process
// and offers no way to configure. LimitCEL replaces the content of the cached environment. Each server calls LimitCEL before the first
// expression is compiled; only the first call acts, so servers and tests that run in parallel do not race.
func LimitCEL() error { return limitCEL() }

var limitCEL = sync.OnceValue(func() error {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	limited, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 28), // of upstream's functions, whose implementations these replace
		EnvOptions: []cel.EnvOption{
			cel.Function("quantity", cel.Overload("string_to_quantity", []*cel.Type{cel.StringType}, apiservercel.QuantityType, cel.UnaryBinding(quantity))),
			cel.Function("isQuantity", cel.Overload("is_quantity_string", []*cel.Type{cel.StringType}, cel.BoolType, cel.UnaryBinding(isQuantity))),
		},
	})
	if err != nil {
		return fmt.Errorf("limit quantities in CEL: %w", err)
	}
	*base = *limited
	return nil
})

func quantity(value ref.Val) ref.Val {
	text, ok := value.Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	parsed, err := parse(text)
	if err != nil {
		return types.WrapErr(err)
	}
	return apiservercel.Quantity{Quantity: &parsed}
}

func isQuantity(value ref.Val) ref.Val {
	text, ok := value.Value().(string)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	_, err := parse(text)
	return types.Bool(err == nil)
}

// parse parses text that is within the limits. Expressions in loops parse one text many times, so long text is not searched.
func parse(text string) (resource.Quantity, error) {
	if len(text) > maxLength {
		return resource.Quantity{}, lengthError(text)
	}
	if err := CheckText(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}
