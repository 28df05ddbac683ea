// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation says what is wrong with an object of features.k8s.io, looking at nothing but the object and the one
// it replaces. What depends on anything else, such as whether spec.desired may be set now, is decided elsewhere.
package validation

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/features"
)

// MaxUses is how many uses a Feature lists.
const MaxUses = 64

const (
	maxNameLength      = 253
	maxComponentLength = 63
	maxVersionLength   = 64
	maxInstanceLength  = 253
	maxExamples        = 10
)

var (
	values      = []features.Value{features.ValueDisabled, features.ValueEnabled}
	stabilities = []features.Stability{
		features.StabilityAlpha, features.StabilityBeta, features.StabilityDeprecated, features.StabilityGA, features.StabilityPreAlpha,
	}
	sources    = []features.Source{features.SourceCommandLine, features.SourceDefault, features.SourceDynamic, features.SourceObserved}
	states     = []features.State{features.StateOff, features.StateOn, features.StateTurningOff, features.StateTurningOn}
	taskStates = []features.TaskState{
		features.TaskAwaitingConfirmation, features.TaskFailed, features.TaskPending, features.TaskRunning,
	}
)

var featureName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

// ValidateFeatureName says what is wrong with the name of a feature gate, or with the beginning of one.
func ValidateFeatureName(name string, _ bool) []string {
	var problems []string
	if !featureName.MatchString(name) {
		problems = append(problems, "must be the name of a feature gate: a letter followed by letters, digits, '.', '_' or '-' (such as NodeSwap)")
	}
	if len(name) > maxNameLength {
		problems = append(problems, fmt.Sprintf("must be at most %d characters; this one has %d", maxNameLength, utf8.RuneCountInString(name)))
	}
	return problems
}

// ValidateFeature says what is wrong with a Feature, its status left aside.
func ValidateFeature(feature *features.Feature) field.ErrorList {
	spec, path := &feature.Spec, field.NewPath("spec")
	errs := validateOptional(path.Child("desired"), spec.Desired, values)
	// A canary needs no wish: it may be made ready before the wish, and outlive one that is taken back.
	if canary := spec.Canary; canary != nil && (canary.Percent < 0 || canary.Percent > 100) {
		errs = append(errs, field.Invalid(path.Child("canary", "percent"), canary.Percent, "must be from 0 (nobody) to 100 (everyone)"))
	}
	return errs
}

// ValidateFeatureUpdate says what is wrong with a Feature that replaces an old one, its status left aside.
func ValidateFeatureUpdate(feature, _ *features.Feature) field.ErrorList {
	return ValidateFeature(feature)
}

// ValidateFeatureStatusUpdate says what is wrong with the status of a Feature that replaces an old one.
func ValidateFeatureStatusUpdate(feature, _ *features.Feature) field.ErrorList {
	status, path := &feature.Status, field.NewPath("status")
	errs := validateNotNegative(path.Child("observedGeneration"), status.ObservedGeneration)
	errs = append(errs, validateOptional(path.Child("stability"), status.Stability, stabilities)...)
	errs = append(errs, validateText(path.Child("version"), status.Version, maxVersionLength)...)
	errs = append(errs, validateText(path.Child("component"), status.Component, maxComponentLength)...)
	errs = append(errs, validateOptional(path.Child("default"), status.Default, values)...)
	errs = append(errs, validateOptional(path.Child("configured"), status.Configured, values)...)
	errs = append(errs, validateOptional(path.Child("source"), status.Source, sources)...)
	errs = append(errs, validateOptional(path.Child("state"), status.State, states)...)
	for i := range status.Tasks {
		errs = append(errs, validateTask(path.Child("tasks").Index(i), &status.Tasks[i])...)
	}
	errs = append(errs, validateUses(path.Child("uses"), status.Uses)...)
	if status.DanglingReferences != nil {
		errs = append(errs, validateDanglingReferences(path.Child("danglingReferences"), status.DanglingReferences)...)
	}
	return append(errs, metav1validation.ValidateConditions(status.Conditions, path.Child("conditions"))...)
}

func validateTask(path *field.Path, task *features.Task) field.ErrorList {
	errs := validateRequired(path.Child("name"), task.Name)
	errs = append(errs, validateOneOf(path.Child("state"), task.State, taskStates)...)
	errs = append(errs, validateNotNegative(path.Child("done"), task.Done)...)
	if task.Total != nil {
		errs = append(errs, validateNotNegative(path.Child("total"), *task.Total)...)
		if task.Done > *task.Total {
			errs = append(errs, field.Invalid(path.Child("done"), task.Done, fmt.Sprintf("must be at most total, which is %d", *task.Total)))
		}
	}
	return append(errs, validateNotNegative(path.Child("attempts"), int64(task.Attempts))...)
}

func validateUses(path *field.Path, uses []features.Use) field.ErrorList {
	var errs field.ErrorList
	if len(uses) > MaxUses {
		errs = append(errs, field.TooMany(path, len(uses), MaxUses))
	}
	type key struct {
		component, version string
		value              features.Value
	}
	seen := map[key]bool{}
	for i := range uses {
		use, at := &uses[i], path.Index(i)
		errs = append(errs, validateRequired(at.Child("component"), use.Component)...)
		errs = append(errs, validateText(at.Child("component"), use.Component, maxComponentLength)...)
		errs = append(errs, validateRequired(at.Child("version"), use.Version)...)
		errs = append(errs, validateText(at.Child("version"), use.Version, maxVersionLength)...)
		errs = append(errs, validateOneOf(at.Child("value"), use.Value, values)...)
		errs = append(errs, validateText(at.Child("reporter"), use.Reporter, maxInstanceLength)...)
		k := key{use.Component, use.Version, use.Value}
		if seen[k] {
			errs = append(errs, field.Duplicate(at, fmt.Sprintf("component %s, version %s, value %s", use.Component, use.Version, use.Value)))
		}
		seen[k] = true
	}
	return errs
}

func validateDanglingReferences(path *field.Path, dangling *features.DanglingReferences) field.ErrorList {
	errs := validateNotNegative(path.Child("count"), dangling.Count)
	examples := path.Child("examples")
	switch n := len(dangling.Examples); {
	case n > maxExamples:
		errs = append(errs, field.TooMany(examples, n, maxExamples))
	case dangling.Count >= 0 && int64(n) > dangling.Count:
		errs = append(errs, field.Invalid(path.Child("count"), dangling.Count, fmt.Sprintf("must be at least the number of examples, which is %d", n)))
	}
	for i, example := range dangling.Examples {
		errs = append(errs, validateRequired(examples.Index(i).Child("resource"), example.Resource)...)
		errs = append(errs, validateRequired(examples.Index(i).Child("name"), example.Name)...)
	}
	return errs
}

func validateOptional[T ~string](path *field.Path, value T, allowed []T) field.ErrorList {
	if value == "" {
		return nil
	}
	return validateOneOf(path, value, allowed)
}

func validateOneOf[T ~string](path *field.Path, value T, allowed []T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, fmt.Sprintf("must be one of %q", allowed))}
	}
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func validateRequired(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "must not be empty")}
	}
	return nil
}

// validateText takes text of at most limit characters. Bytes that are not UTF-8, which protobuf carries, would come back as
// other text in JSON: two uses would become one key, and nobody could patch the object any more. Control characters would be obeyed by
// the terminals of those who read it.
func validateText(path *field.Path, value string, limit int) field.ErrorList {
	if !utf8.ValidString(value) {
		return field.ErrorList{field.Invalid(path, strings.ToValidUTF8(value, "\uFFFD"), "must be valid UTF-8")}
	}
	if utf8.RuneCountInString(value) > limit {
		return field.ErrorList{field.TooLongCharacters(path, value, limit)}
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		return field.ErrorList{field.Invalid(path, value, "must not contain control characters")}
	}
	return nil
}

func validateNotNegative(path *field.Path, value int64) field.ErrorList {
	if value < 0 {
		return field.ErrorList{field.Invalid(path, value, "must not be negative")}
	}
	return nil
}
