// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	basegate "k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
)

// Limits of the API.
const (
	maxComponentLength = 63
	maxVersionLength   = 64
	maxInstanceLength  = 253
	maxNameLength      = 253
)

// Options say who reports.
type Options struct {
	// Component is the name of the program, such as kube-scheduler; a label value of at most 63 characters.
	Component string
	// Version is the version of the program, such as v1.37.1; at most 64 characters.
	Version string
	// Namespace is where the Features of the program are: kube-system for Kubernetes itself, a namespace of one's own for others.
	Namespace string
	// Instance tells this process from all others of the component, such as the name of its pod; at most 253 characters. A
	// process that takes the place of another after a restart should have the same. It decides who is in a canary.
	Instance string
	// Clock is for tests; nil means the clock of the machine.
	Clock clock.Clock
}

// Validate returns everything that is wrong with the options.
func (o *Options) Validate() []error {
	var errs []error
	add := func(field, value string, problems ...string) {
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("featuregate option %s %q: %s", field, value, problem))
		}
	}
	if o.Component == "" {
		add("Component", "", "must be the name of the program, such as kube-scheduler")
	}
	add("Component", o.Component, validation.IsValidLabelValue(o.Component)...)
	add("Version", o.Version, text(o.Version, maxVersionLength, "must be the version of the program, such as v1.37.1")...)
	if o.Namespace == "" {
		add("Namespace", "", "must be the namespace of the program's Features, such as kube-system")
	} else {
		add("Namespace", o.Namespace, validation.IsDNS1123Label(o.Namespace)...)
	}
	add("Instance", o.Instance, text(o.Instance, maxInstanceLength, "must tell this process from others of the component, such as the name of its pod")...)
	return errs
}

func text(value string, limit int, whenEmpty string) []string {
	switch {
	case value == "":
		return []string{whenEmpty}
	case !utf8.ValidString(value):
		return []string{"must be valid UTF-8"}
	case utf8.RuneCountInString(value) > limit:
		return []string{fmt.Sprintf("must be at most %d characters", limit)}
	}
	return nil
}

var nameOfFeature = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

// reportable tells whether a gate can have a Feature. AllAlpha and AllBeta say something of others and nothing of themselves.
func reportable(name basegate.Feature) bool {
	return name != "AllAlpha" && name != "AllBeta" && len(name) <= maxNameLength && nameOfFeature.MatchString(string(name))
}

// LabelValue returns what a label can have of a component or a version, which may have a "+" or be a character too long.
func LabelValue(text string) string {
	label := strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '.', r == '-':
			return r
		}
		return '_'
	}, text)
	if len(label) > validation.LabelValueMaxLength {
		label = label[:validation.LabelValueMaxLength]
	}
	return strings.Trim(label, "._-")
}
