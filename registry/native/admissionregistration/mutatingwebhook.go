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

type mutatingConfiguration = admissionregistrationv1.MutatingWebhookConfiguration

func mutatingWebhooks(cel *language) resource.Kind[*mutatingConfiguration] {
	return resource.Kind[*mutatingConfiguration]{
		Plural: "mutatingwebhookconfigurations", Singular: "mutatingwebhookconfiguration", Scope: resource.Cluster,
		Categories: categories(),
		NewList:    func() runtime.Object { return &admissionregistrationv1.MutatingWebhookConfigurationList{} },
		Default:    defaultMutatingWebhooks,
		Validate: func(c *mutatingConfiguration) field.ErrorList {
			return append(validateReservedName(c), validateWebhooks(c.Webhooks, cel, allowances{})...)
		},
		ValidateUpdate: func(c, old *mutatingConfiguration) field.ErrorList {
			return append(validateStoredMeta(c), validateWebhooks(c.Webhooks, cel, allowancesFor(c.Webhooks, old.Webhooks))...)
		},
		Warnings: func(_ context.Context, c, _ *mutatingConfiguration) []string { return warnOfWebhooks(c.Webhooks) },
		Columns: []resource.Column[*mutatingConfiguration]{{
			Name: "Webhooks", Type: "integer", Description: webhooksColumn, Of: func(c *mutatingConfiguration) any { return int64(len(c.Webhooks)) },
		}},
		Generations: resource.CountGenerations,
	}
}

func defaultMutatingWebhooks(c *mutatingConfiguration) {
	for i := range c.Webhooks {
		defaultWebhook(&c.Webhooks[i])
		defaultPointer(&c.Webhooks[i].ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
	}
}
