// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"github.com/kube-annex/annex/registry/native/admissionregistration"
)

// groups are the API groups of a server; nil means all. Most configurations of a host are irrelevant for its extension.
type groups []string

// keep is a cache.TransformFunc that removes what is irrelevant for the groups or read by no plugin. Irrelevant policies are not compiled,
// and their parameters are not watched.
func (g groups) keep(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	if g == nil {
		return object, nil
	}
	switch typed := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		typed.Webhooks = slices.DeleteFunc(typed.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return !g.match(w.Rules) })
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		typed.Webhooks = slices.DeleteFunc(typed.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return !g.match(w.Rules) })
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		if !g.matchAny(typed.Spec.MatchConstraints) {
			typed.Spec = admissionregistrationv1.MutatingAdmissionPolicySpec{MatchConstraints: typed.Spec.MatchConstraints}
		}
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		if !g.matchAny(typed.Spec.MatchConstraints) {
			typed.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: typed.Spec.MatchConstraints}
		}
	}
	return object, nil
}

// relevant reports whether the plugin has to process a configuration that keep has reduced.
func (g groups) relevant(object any) bool {
	switch typed := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		return len(typed.Webhooks) > 0
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		return len(typed.Webhooks) > 0
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return g == nil || g.matchAny(typed.Spec.MatchConstraints)
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return g == nil || g.matchAny(typed.Spec.MatchConstraints)
	}
	return true
}

// matchAny reports whether a policy matches one of the groups. A policy without rules matches everything.
func (g groups) matchAny(constraints *admissionregistrationv1.MatchResources) bool {
	if constraints == nil || len(constraints.ResourceRules) == 0 {
		return true
	}
	return slices.ContainsFunc(constraints.ResourceRules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return g.match([]admissionregistrationv1.RuleWithOperations{rule.RuleWithOperations})
	})
}

func (g groups) match(rules []admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		return slices.ContainsFunc(rule.APIGroups, func(group string) bool { return group == "*" || slices.Contains(g, group) })
	})
}

func isReview(resource schema.GroupResource) bool {
	return strings.HasPrefix(resource.Group, "auth") && slices.Contains(admissionregistration.ExemptResources(), resource)
}

// exemptFromWebhooks and exemptFromPolicies report whether the plugin ignores the request. Such a request does not wait for the
// configurations either, so that wrong ones can be corrected.
func exemptFromWebhooks(request admission.Attributes) bool {
	return isReview(request.GetResource().GroupResource()) || rules.IsExemptAdmissionConfigurationResource(request)
}

func exemptFromPolicies(request admission.Attributes) bool {
	resource := request.GetResource()
	if resource.Group != admissionregistrationv1.GroupName {
		return isReview(resource.GroupResource())
	}
	return slices.Contains(policyKinds, resource.Resource)
}
