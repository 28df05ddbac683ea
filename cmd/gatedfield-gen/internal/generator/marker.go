// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kube-annex/annex/apis/gatedfield"
)

const (
	tag      = "+featureGate"
	gatesTag = "+featureGates"
	forms    = "+featureGate=Name and +featureGate=Name,whenOff=Reject"
)

// isMarker takes whatever may be meant to be a marker, so that no misspelt one is passed over.
func isMarker(line string) bool {
	word, _, _ := strings.Cut(line, " ")
	word, _, _ = strings.Cut(word, "=")
	return word != gatesTag && len(word) >= len(tag) && strings.EqualFold(word[:len(tag)], tag)
}

// parse returns the gate and the policy of a marker, and all that is wrong with it.
func (m marker) parse() (gate string, policy gatedfield.Policy, errs []error) {
	name, value, ok := strings.Cut(m.text, "=")
	if name != tag || !ok {
		return "", "", []error{fmt.Errorf("unknown marker %q; the forms are %s", m.text, forms)}
	}
	gate, rest, hasOptions := strings.Cut(value, ",")
	if gate == "" || strings.ContainsAny(gate, " \t") {
		return "", "", []error{fmt.Errorf("%q has no gate's name; the forms are %s", m.text, forms)}
	}
	policy = gatedfield.Drop
	if !hasOptions {
		return gate, policy, nil
	}
	seen := map[string]bool{}
	for option := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(option, "=")
		switch {
		case key != "whenOff":
			errs = append(errs, fmt.Errorf("unknown option %q of %s; the only one is whenOff=Drop or whenOff=Reject", option, tag))
		case seen[key]:
			errs = append(errs, errors.New("whenOff is given twice; keep one"))
		case value != string(gatedfield.Drop) && value != string(gatedfield.Reject):
			errs = append(errs, fmt.Errorf("unknown whenOff=%s; it is Drop (the default) or Reject", value))
		default:
			policy = gatedfield.Policy(value)
		}
		seen[key] = true
	}
	return gate, policy, errs
}
