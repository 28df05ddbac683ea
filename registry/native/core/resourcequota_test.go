// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func hard(amounts ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for pair := range slices.Chunk(amounts, 2) {
		list[corev1.ResourceName(pair[0])] = resource.MustParse(pair[1])
	}
	return list
}

func TestValidateResourceQuota(t *testing.T) {
	t.Parallel()
	selector := func(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) *corev1.ScopeSelector {
		return &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: scope, Operator: operator, Values: values}}}
	}
	for name, tc := range map[string]struct {
		in   corev1.ResourceQuotaSpec
		want []string
	}{
		"counts":                  {corev1.ResourceQuotaSpec{Hard: hard("configmaps", "1", "count/widgets.example.com", "2")}, nil},
		"a kind that has no name": {corev1.ResourceQuotaSpec{Hard: hard("widgets", "1")}, []string{"FieldValueInvalid spec.hard[widgets]"}},
		"half an object":          {corev1.ResourceQuotaSpec{Hard: hard("secrets", "500m")}, []string{"FieldValueInvalid spec.hard[secrets]"}},
		"half a count":            {corev1.ResourceQuotaSpec{Hard: hard("count/widgets.example.com", "500m")}, []string{"FieldValueInvalid spec.hard[count/widgets.example.com]"}},
		"half a processor":        {corev1.ResourceQuotaSpec{Hard: hard("requests.cpu", "500m")}, nil},
		"less than none":          {corev1.ResourceQuotaSpec{Hard: hard("requests.cpu", "-1")}, []string{"FieldValueInvalid spec.hard[requests.cpu]"}},
		"a scope of pods":         {corev1.ResourceQuotaSpec{Hard: hard("pods", "1"), Scopes: []corev1.ResourceQuotaScope{"BestEffort"}}, nil},
		"a scope that does not fit": {
			corev1.ResourceQuotaSpec{Hard: hard("configmaps", "1"), Scopes: []corev1.ResourceQuotaScope{"BestEffort"}},
			[]string{"FieldValueInvalid spec.scopes"},
		},
		"scopes that exclude each other": {
			corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{"Terminating", "NotTerminating"}},
			[]string{"FieldValueInvalid spec.scopes"},
		},
		"a selector": {corev1.ResourceQuotaSpec{ScopeSelector: selector("PriorityClass", corev1.ScopeSelectorOpIn, "high")}, nil},
		"a selector without values": {
			corev1.ResourceQuotaSpec{ScopeSelector: selector("PriorityClass", corev1.ScopeSelectorOpIn)},
			[]string{"FieldValueRequired spec.scopeSelector.matchExpressions.values"},
		},
		"a selector that can only ask whether": {
			corev1.ResourceQuotaSpec{ScopeSelector: selector("BestEffort", corev1.ScopeSelectorOpIn, "a")},
			[]string{"FieldValueInvalid spec.scopeSelector.matchExpressions.operator"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, fields(validateQuotaSpec(&tc.in))); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestQuotasAreShown(t *testing.T) {
	t.Parallel()
	quota := &corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{
		Hard: hard("limits.cpu", "2", "secrets", "5", "configmaps", "10"), Used: hard("limits.cpu", "1500m", "configmaps", "3"),
	}}
	var got []any
	for _, column := range resourceQuotas().Columns {
		got = append(got, column.Of(quota))
	}
	if diff := cmp.Diff([]any{"configmaps: 3/10, secrets: 0/5", "limits.cpu: 1500m/2"}, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}
