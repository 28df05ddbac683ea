// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/resource"
)

type validatingConfiguration = admissionregistrationv1.ValidatingWebhookConfiguration

func validatingWebhooks(cel *language) resource.Kind[*validatingConfiguration] {
	return resource.Kind[*validatingConfiguration]{
		Plural: "validatingwebhookconfigurations", Singular: "validatingwebhookconfiguration", Scope: resource.Cluster,
		Categories: categories(),
		NewList:    func() runtime.Object { return &admissionregistrationv1.ValidatingWebhookConfigurationList{} },
		Default:    defaultValidatingWebhooks,
		Validate: func(c *validatingConfiguration) field.ErrorList {
			return append(validateReservedName(c), validateWebhooks(hooksOf(c), cel, allowances{})...)
		},
		ValidateUpdate: func(c, old *validatingConfiguration) field.ErrorList {
			return append(validateStoredMeta(c), validateWebhooks(hooksOf(c), cel, allowancesFor(hooksOf(c), hooksOf(old)))...)
		},
		Warnings: func(_ context.Context, c, _ *validatingConfiguration) []string { return warnOfWebhooks(hooksOf(c)) },
		Columns: []resource.Column[*validatingConfiguration]{{
			Name: "Webhooks", Type: "integer", Description: webhooksColumn, Of: func(c *validatingConfiguration) any { return int64(len(c.Webhooks)) },
		}},
		Generations: resource.CountGenerations,
	}
}

// defaultValidatingWebhooks takes over the fields themselves: what defaults change behind pointers and in slices is the same for both.
func defaultValidatingWebhooks(c *validatingConfiguration) {
	for i := range c.Webhooks {
		hook, complete := &c.Webhooks[i], shared(c.Webhooks[i])
		defaultWebhook(&complete)
		hook.FailurePolicy, hook.MatchPolicy, hook.TimeoutSeconds = complete.FailurePolicy, complete.MatchPolicy, complete.TimeoutSeconds
		hook.NamespaceSelector, hook.ObjectSelector = complete.NamespaceSelector, complete.ObjectSelector
	}
}

func hooksOf(c *validatingConfiguration) []webhook {
	var hooks []webhook
	for _, hook := range c.Webhooks {
		hooks = append(hooks, shared(hook))
	}
	return hooks
}

// shared returns what validating webhooks have in common with mutating ones, which is all of it.
func shared(hook admissionregistrationv1.ValidatingWebhook) webhook {
	return webhook{
		Name: hook.Name, ClientConfig: hook.ClientConfig, Rules: hook.Rules, FailurePolicy: hook.FailurePolicy, MatchPolicy: hook.MatchPolicy,
		NamespaceSelector: hook.NamespaceSelector, ObjectSelector: hook.ObjectSelector, SideEffects: hook.SideEffects,
		TimeoutSeconds: hook.TimeoutSeconds, AdmissionReviewVersions: hook.AdmissionReviewVersions, MatchConditions: hook.MatchConditions,
	}
}
