// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	defaultTimeoutSeconds = 10
	maxTimeoutSeconds     = 30
)

// webhook is one of either kind: a mutating one has all that a validating one has, and whether it is called again.
type webhook = admissionregistrationv1.MutatingWebhook

// reviewVersions are the versions of AdmissionReview that this server and the one before it can send.
func reviewVersions() []string { return []string{"v1", "v1beta1"} }

func harmless() []admissionregistrationv1.SideEffectClass {
	return []admissionregistrationv1.SideEffectClass{admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun}
}

func defaultWebhook(hook *webhook) {
	defaultClientConfig(&hook.ClientConfig)
	for i := range hook.Rules {
		defaultPointer(&hook.Rules[i].Scope, admissionregistrationv1.AllScopes)
	}
	defaultPointer(&hook.FailurePolicy, admissionregistrationv1.Fail)
	defaultPointer(&hook.MatchPolicy, admissionregistrationv1.Equivalent)
	defaultPointer(&hook.NamespaceSelector, metav1.LabelSelector{})
	defaultPointer(&hook.ObjectSelector, metav1.LabelSelector{})
	defaultPointer(&hook.TimeoutSeconds, defaultTimeoutSeconds)
}

// allowances are what an update may leave as it is stored, because versions of long ago allowed it.
type allowances struct {
	sideEffects, reviewVersions, sameNames, selectorValues bool
	// sameConditions tells that no match condition has changed; those that are compiled again may be among stored ones.
	sameConditions bool
	conditions     sets.Set[string]
}

// allowancesFor returns what webhooks may keep of the old ones.
func allowancesFor(hooks, old []webhook) allowances {
	var allowed allowances
	allowed.conditions = sets.New[string]()
	names := sets.New[string]()
	for _, hook := range old {
		allowed.sideEffects = allowed.sideEffects || hook.SideEffects == nil || !slices.Contains(harmless(), *hook.SideEffects)
		allowed.reviewVersions = allowed.reviewVersions || len(hook.AdmissionReviewVersions) > 0 && !recognized(hook.AdmissionReviewVersions)
		allowed.sameNames = allowed.sameNames || names.Has(hook.Name)
		allowed.selectorValues = allowed.selectorValues || len(validateSelectors(&hook, false, nil)) > 0
		names.Insert(hook.Name)
		allowed.conditions.Insert(expressionsOf(hook.MatchConditions)...)
	}
	allowed.sameConditions = slices.EqualFunc(hooks, old, func(hook, old webhook) bool {
		return equality.Semantic.DeepEqual(hook.MatchConditions, old.MatchConditions)
	})
	return allowed
}

func recognized(versions []string) bool {
	return slices.ContainsFunc(versions, func(version string) bool { return slices.Contains(reviewVersions(), version) })
}

func validateWebhooks(hooks []webhook, cel *language, allowed allowances) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range hooks {
		hook, path := &hooks[i], field.NewPath("webhooks").Index(i)
		errs = append(errs, validateWebhook(hook, allowed, path)...)
		if !allowed.sameConditions {
			errs = append(errs, validateMatchConditions(hook.MatchConditions, cel.matchCondition(false, allowed.conditions), path.Child("matchConditions"))...)
		}
		if hook.Name != "" && names.Has(hook.Name) && !allowed.sameNames {
			errs = append(errs, field.Duplicate(path.Child("name"), hook.Name))
		}
		names.Insert(hook.Name)
	}
	return errs
}

func validateWebhook(hook *webhook, allowed allowances, path *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(path.Child("name"), hook.Name)
	errs = append(errs, validateClientConfig(&hook.ClientConfig, path.Child("clientConfig"))...)
	for i := range hook.Rules {
		errs = append(errs, validateRule(&hook.Rules[i], path.Child("rules").Index(i))...)
	}
	errs = append(errs, validateChoice(hook.FailurePolicy, path.Child("failurePolicy"), admissionregistrationv1.Fail, admissionregistrationv1.Ignore)...)
	errs = append(errs, validateChoice(hook.MatchPolicy, path.Child("matchPolicy"), admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)...)
	errs = append(errs, validateSelectors(hook, allowed.selectorValues, path)...)
	errs = append(errs, validateSideEffects(hook.SideEffects, allowed.sideEffects, path.Child("sideEffects"))...)
	if seconds := hook.TimeoutSeconds; seconds != nil && (*seconds < 1 || *seconds > maxTimeoutSeconds) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *seconds, fmt.Sprintf("the timeout value must be between 1 and %d seconds", maxTimeoutSeconds)))
	}
	errs = append(errs, validateReviewVersions(hook.AdmissionReviewVersions, allowed.reviewVersions, path.Child("admissionReviewVersions"))...)
	return append(errs, validateChoice(hook.ReinvocationPolicy, path.Child("reinvocationPolicy"),
		admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)...)
}

func validateSelectors(hook *webhook, anyValues bool, path *field.Path) field.ErrorList {
	options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: anyValues}
	return append(metav1validation.ValidateLabelSelector(hook.NamespaceSelector, options, path.Child("namespaceSelector")),
		metav1validation.ValidateLabelSelector(hook.ObjectSelector, options, path.Child("objectSelector"))...)
}

// validateSideEffects wants webhooks that a dry run may call.
func validateSideEffects(effects *admissionregistrationv1.SideEffectClass, anyEffects bool, path *field.Path) field.ErrorList {
	known := harmless()
	if anyEffects {
		known = append(known, admissionregistrationv1.SideEffectClassSome, admissionregistrationv1.SideEffectClassUnknown)
	}
	if effects == nil {
		return field.ErrorList{field.Required(path, fmt.Sprintf("must specify one of %s", known))}
	}
	return validateChoice(effects, path, known...)
}

func validateReviewVersions(versions []string, anyVersions bool, path *field.Path) field.ErrorList {
	known := strings.Join(reviewVersions(), ", ")
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+known)}
	}
	var errs field.ErrorList
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			errs = append(errs, field.Invalid(path.Index(i), version, "duplicate version"))
			continue
		}
		for _, message := range validation.IsDNS1035Label(version) {
			errs = append(errs, field.Invalid(path.Index(i), version, message))
		}
	}
	if !anyVersions && !recognized(versions) {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of "+known))
	}
	return errs
}
