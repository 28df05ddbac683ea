// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func goodWebhook(change func(*webhook)) webhook {
	hook := webhook{
		Name: "a.example.com", SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://a")},
	}
	change(&hook)
	return hook
}

// TestStoredMistakesMayStay has what earlier versions let in, which no request can bring in any more: the corpus of verdicts cannot
// have it. An object that has a mistake may keep it, one that has none may not get it.
func TestStoredMistakesMayStay(t *testing.T) {
	t.Parallel()
	good := []webhook{goodWebhook(func(*webhook) {})}
	one := func(change func(*webhook)) []webhook { return []webhook{goodWebhook(change)} }
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"b c"}}}}
	condition := func(expressions ...string) []webhook {
		return one(func(hook *webhook) {
			for i, expression := range expressions {
				hook.MatchConditions = append(hook.MatchConditions, admissionregistrationv1.MatchCondition{Name: fmt.Sprint("c", i), Expression: expression})
			}
		})
	}
	for name, tc := range map[string]struct {
		bad   []webhook
		field string
		// stays tells whether the mistake may be kept when something else changes.
		stays bool
	}{
		"unknown side effects": {one(func(hook *webhook) { hook.SideEffects = ptr.To(admissionregistrationv1.SideEffectClassUnknown) }), "webhooks[0].sideEffects", true},
		"some side effects":    {one(func(hook *webhook) { hook.SideEffects = ptr.To(admissionregistrationv1.SideEffectClassSome) }), "webhooks[0].sideEffects", true},
		"no side effects told": {one(func(hook *webhook) { hook.SideEffects = nil }), "webhooks[0].sideEffects", false},
		"versions that are not known any more": {
			one(func(hook *webhook) { hook.AdmissionReviewVersions = []string{"v1alpha1"} }), "webhooks[0].admissionReviewVersions", true,
		},
		"no versions":          {one(func(hook *webhook) { hook.AdmissionReviewVersions = nil }), "webhooks[0].admissionReviewVersions", false},
		"two of one name":      {append(one(func(*webhook) {}), good...), "webhooks[1].name", true},
		"a namespace selector": {one(func(hook *webhook) { hook.NamespaceSelector = selector }), "webhooks[0].namespaceSelector.matchExpressions[0].values[0]", true},
		"an object selector":   {one(func(hook *webhook) { hook.ObjectSelector = selector }), "webhooks[0].objectSelector.matchExpressions[0].values[0]", true},
		"a match condition":    {condition("object."), "webhooks[0].matchConditions[0].expression", true},
		"a timeout":            {one(func(hook *webhook) { hook.TimeoutSeconds = ptr.To[int32](31) }), "webhooks[0].timeoutSeconds", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := append([]webhook{}, tc.bad...)
			changed[0].FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
			var kept []string
			if !tc.stays {
				kept = []string{tc.field}
			}
			for what, tc := range map[string]struct {
				hooks, old []webhook
				want       []string
			}{
				"kept":       {changed, tc.bad, kept},
				"brought in": {tc.bad, good, []string{tc.field}},
				"made good":  {good, tc.bad, nil},
			} {
				var got []string
				for _, err := range validateWebhooks(tc.hooks, newLanguage(), allowancesFor(tc.hooks, tc.old)) {
					got = append(got, err.Field)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s (-want,+got):\n%s", what, diff)
				}
			}
		})
	}
}

// TestChangedConditionsAreJudgedAgain has conditions that do not compile, which stand for those that a later version let in.
func TestChangedConditionsAreJudgedAgain(t *testing.T) {
	t.Parallel()
	conditions := func(expressions ...string) []webhook {
		return []webhook{goodWebhook(func(hook *webhook) {
			for i, expression := range expressions {
				hook.MatchConditions = append(hook.MatchConditions, admissionregistrationv1.MatchCondition{Name: fmt.Sprint("c", i), Expression: expression})
			}
		})}
	}
	for name, tc := range map[string]struct {
		hooks, old []webhook
		want       int
	}{
		"the same":              {conditions("object."), conditions("object."), 0},
		"one more":              {conditions("object.", "true"), conditions("object."), 1},
		"another webhook":       {append(conditions("object."), goodWebhook(func(hook *webhook) { hook.Name = "b.example.com" })), conditions("object."), 1},
		"one less":              {conditions("true"), conditions("true", "object."), 0},
		"another that is wrong": {conditions("1"), conditions("true"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if errs := validateWebhooks(tc.hooks, newLanguage(), allowancesFor(tc.hooks, tc.old)); len(errs) != tc.want {
				t.Errorf("%d mistakes, want %d: %v", len(errs), tc.want, errs)
			}
		})
	}
}
