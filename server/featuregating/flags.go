// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/apis/features/validation"
	"github.com/kube-annex/annex/server/featuregating/gates"
)

// all stands for all features of a namespace.
const all = "*"

// name is a feature anywhere.
type name struct{ namespace, name string }

func (n name) String() string { return n.namespace + "/" + n.name }

// wanted is what the flags say.
type wanted struct {
	// dynamic are the features that may be set by API clients; Annex's own are among them.
	dynamic map[name]bool
	// values are of features of others.
	values map[name]bool
}

// namespaces returns those of others, in order.
func (w wanted) namespaces() []string {
	found := map[string]bool{}
	for n := range w.values {
		found[n.namespace] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// read makes sense of the flags that name features, and reports every mistake.
func (o *Options) read(own featuregate.MutableVersionedFeatureGate) (wanted, []error) {
	w := wanted{dynamic: map[name]bool{}, values: map[name]bool{}}
	var errs []error
	for _, text := range o.Features {
		if err := w.setValue(text); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", featuresFlag, err))
		}
	}
	for _, text := range o.Dynamic {
		if err := w.setDynamic(text, gates.Own(own)); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", dynamicFlag, err))
		}
	}
	return w, errs
}

func (w wanted) setValue(text string) error {
	left, right, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q has no value; write it as namespace/Name=true or namespace/Name=false", text)
	}
	n, err := parse(left)
	if err != nil {
		return err
	}
	value, err := strconv.ParseBool(strings.TrimSpace(right))
	switch before, known := w.values[n]; {
	case n.namespace == gates.Namespace:
		return fmt.Errorf("%s is for Annex's own feature gates, which --feature-gates sets; use --feature-gates=%s=%s", gates.Namespace, n.name, right)
	case n.name == all:
		return fmt.Errorf("%q sets no particular feature; name each", text)
	case err != nil:
		return fmt.Errorf("the value of %s is %q; write true or false", n, right)
	case known && before != value:
		return fmt.Errorf("%s is both true and false; give it once", n)
	}
	w.values[n] = value
	return nil
}

func (w wanted) setDynamic(text string, own map[featuregate.Feature]featuregate.FeatureSpec) error {
	n, err := parse(text)
	switch {
	case err != nil:
		return err
	case n.namespace == gates.Namespace && n.name == all:
		for gate, spec := range own {
			if fixed(gate, spec) == "" {
				w.dynamic[name{gates.Namespace, string(gate)}] = true
			}
		}
		return nil
	case n.namespace == gates.Namespace:
		spec, known := own[featuregate.Feature(n.name)]
		if !known {
			return fmt.Errorf("%s is no feature gate of Annex; the gates are %s", n, list(own))
		}
		if why := fixed(featuregate.Feature(n.name), spec); why != "" {
			return fmt.Errorf("%s %s and cannot be changed while the server runs; take it out", n, why)
		}
		w.dynamic[n] = true
		return nil
	case n.name == all:
		found := false
		for valued := range w.values {
			if valued.namespace == n.namespace {
				w.dynamic[valued], found = true, true
			}
		}
		if !found {
			return fmt.Errorf("%s stands for no feature, since --%s sets none in that namespace; give each a value as well, such as --%s=%s/Name=false",
				n, featuresFlag, featuresFlag, n.namespace)
		}
		return nil
	}
	if _, known := w.values[n]; !known {
		return fmt.Errorf("%s is not among Annex's own features, so the server does not know its value; give one with --%s=%s=false or =true as well", n, featuresFlag, n)
	}
	w.dynamic[n] = true
	return nil
}

// fixed tells why a gate cannot change, or nothing if it can.
func fixed(gate featuregate.Feature, spec featuregate.FeatureSpec) string {
	switch {
	case gates.ReadAtStart(gate):
		return "is read by processes when they start"
	case spec.LockToDefault:
		return "is locked to its default"
	case spec.PreRelease == featuregate.GA:
		return "is generally available"
	}
	return ""
}

func list(own map[featuregate.Feature]featuregate.FeatureSpec) string {
	names := make([]string, 0, len(own))
	for gate := range own {
		names = append(names, string(gate))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// parse reads namespace/Name or namespace/*.
func parse(text string) (name, error) {
	text = strings.TrimSpace(text)
	namespace, rest, ok := strings.Cut(text, "/")
	if !ok {
		return name{}, fmt.Errorf("%q has no namespace; write it as namespace/Name, such as %s/%s", text, gates.Namespace, gates.NodeBalloonReclaimPolicy)
	}
	for _, problem := range utilvalidation.IsDNS1123Label(namespace) {
		return name{}, fmt.Errorf("%q is not the name of a namespace: %s", namespace, problem)
	}
	if rest == all {
		return name{namespace, all}, nil
	}
	for _, problem := range validation.ValidateFeatureName(rest, false) {
		return name{}, fmt.Errorf("%q is not the name of a feature: %s", rest, problem)
	}
	return name{namespace, rest}, nil
}
