// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeadmission "k8s.io/apiserver/pkg/admission"
)

// TestConfigurationsThatConcernAGroup gives configurations of all kinds to a server of one group, to one of another, and to one of all groups.
func TestConfigurationsThatConcernAGroup(t *testing.T) {
	t.Parallel()
	rules := func(groups ...string) (all []admissionregistrationv1.RuleWithOperations) {
		for _, group := range groups {
			all = append(all, admissionregistrationv1.RuleWithOperations{Rule: admissionregistrationv1.Rule{APIGroups: []string{"x.example.com", group}}})
		}
		return all
	}
	constraints := func(groups ...string) *admissionregistrationv1.MatchResources {
		match := &admissionregistrationv1.MatchResources{}
		for _, rule := range rules(groups...) {
			match.ResourceRules = append(match.ResourceRules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: rule})
		}
		return match
	}
	variables := []admissionregistrationv1.Variable{{Name: "v", Expression: "true"}}
	meta := metav1.ObjectMeta{Name: "c", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "someone"}}}
	type object interface {
		metav1.Object
		runtime.Object
	}
	mutating := func(groups ...string) object {
		return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "w", Rules: rules(groups...)}}}
	}
	validating := func(groups ...string) object {
		return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "w", Rules: rules(groups...)}}}
	}
	mutatingPolicy := func(match *admissionregistrationv1.MatchResources) object {
		return &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{MatchConstraints: match, Variables: variables}}
	}
	validatingPolicy := func(match *admissionregistrationv1.MatchResources) object {
		return &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: match, Variables: variables}}
	}
	content := func(object any) int {
		switch typed := object.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			return len(typed.Webhooks)
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			return len(typed.Webhooks)
		case *admissionregistrationv1.MutatingAdmissionPolicy:
			return len(typed.Spec.Variables)
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			return len(typed.Spec.Variables)
		}
		t.Fatalf("a %T", object)
		return 0
	}
	mine, others := groups{"", "mine.example.com"}, groups{"others.example.com"}
	for name, tc := range map[string]struct {
		object            object
		mine, others, all bool // whether it concerns a server of the group, one of another group, and one of all
	}{
		"a mutating webhook":                 {mutating("apps", "mine.example.com"), true, false, true},
		"a mutating webhook for all":         {mutating("*"), true, true, true},
		"a mutating webhook without rules":   {mutating(), false, false, true},
		"a validating webhook":               {validating("", "apps"), true, false, true},
		"a validating webhook for all":       {validating("*"), true, true, true},
		"a validating webhook without rules": {validating(), false, false, true},
		"a mutating policy":                  {mutatingPolicy(constraints("apps", "mine.example.com")), true, false, true},
		"a mutating policy of others":        {mutatingPolicy(constraints("others.example.com")), false, true, true},
		"a mutating policy for all":          {mutatingPolicy(constraints("*")), true, true, true},
		"a mutating policy without rules":    {mutatingPolicy(constraints()), true, true, true},
		"a mutating policy of anything":      {mutatingPolicy(nil), true, true, true},
		"a validating policy":                {validatingPolicy(constraints("")), true, false, true},
		"a validating policy of others":      {validatingPolicy(constraints("others.example.com")), false, true, true},
		"a validating policy without rules":  {validatingPolicy(constraints()), true, true, true},
		"a validating policy of anything":    {validatingPolicy(nil), true, true, true},
	} {
		for server, of := range map[string]struct {
			groups groups
			want   bool
		}{"of the group": {mine, tc.mine}, "of another group": {others, tc.others}, "of all groups": {nil, tc.all}} {
			kept, err := of.groups.keep(tc.object.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			if got := of.groups.relevant(kept); got != of.want || (content(kept) > 0) != of.want {
				t.Errorf("%s, a server %s: it concerns the server: %t, and has %d parts; want %t", name, server, got, content(kept), of.want)
			}
			if kept.(metav1.Object).GetManagedFields() != nil {
				t.Errorf("%s: managed fields were kept", name)
			}
		}
	}
	if kept, err := mine.keep("no object"); err != nil || !mine.relevant(kept) || kept != "no object" {
		t.Errorf("something else: %v, %v", kept, err)
	}
}

// TestRequestsThatAreNeverHeldUp has wrong configurations put right, and access reviews answered.
func TestRequestsThatAreNeverHeldUp(t *testing.T) {
	t.Parallel()
	type exempt struct{ Webhooks, Policies bool }
	const configurations = admissionregistrationv1.GroupName
	for _, tc := range []struct {
		group, resource, kind string
		want                  exempt
	}{
		{"authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", exempt{true, true}},
		{"authentication.k8s.io", "tokenreviews", "TokenReview", exempt{true, true}},
		{"authorization.k8s.io", "others", "Other", exempt{false, false}},
		{"other.example.com", "subjectaccessreviews", "SubjectAccessReview", exempt{false, false}},
		{configurations, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", exempt{true, false}},
		{configurations, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", exempt{true, false}},
		{configurations, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", exempt{true, true}},
		{configurations, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", exempt{true, true}},
		{configurations, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", exempt{true, true}},
		{configurations, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", exempt{true, true}},
		{"other.example.com", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", exempt{false, false}},
		{"", "configmaps", "ConfigMap", exempt{false, false}},
	} {
		version := schema.GroupVersion{Group: tc.group, Version: "v1"}
		request := kubeadmission.NewAttributesRecord(nil, nil, version.WithKind(tc.kind), "", "x", version.WithResource(tc.resource), "", kubeadmission.Update, nil, false, nil)
		if diff := cmp.Diff(tc.want, exempt{exemptFromWebhooks(request), exemptFromPolicies(request)}); diff != "" {
			t.Errorf("%s.%s (-want,+got):\n%s", tc.resource, tc.group, diff)
		}
	}
}
