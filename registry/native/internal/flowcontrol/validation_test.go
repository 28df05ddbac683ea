// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package flowcontrol

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

// The corpus of test/compatibility/apicompat has many more cases; these are what each rule is about.

func mistakes(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, string(err.Type)+" "+err.Field)
	}
	slices.Sort(out)
	return out
}

func TestRulesOfFlowSchemas(t *testing.T) {
	t.Parallel()
	subject := flowcontrolv1.Subject{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "a"}}
	about := func(subject flowcontrolv1.Subject) flowcontrolv1.PolicyRulesWithSubjects {
		return flowcontrolv1.PolicyRulesWithSubjects{
			Subjects:      []flowcontrolv1.Subject{subject},
			ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"a"}, Resources: []string{"b"}, ClusterScope: true}},
		}
	}
	resources := func(change func(*flowcontrolv1.ResourcePolicyRule)) flowcontrolv1.PolicyRulesWithSubjects {
		rule := about(subject)
		change(&rule.ResourceRules[0])
		return rule
	}
	paths := func(verbs, urls []string) flowcontrolv1.PolicyRulesWithSubjects {
		return flowcontrolv1.PolicyRulesWithSubjects{
			Subjects:         []flowcontrolv1.Subject{subject},
			NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: verbs, NonResourceURLs: urls}},
		}
	}
	account := func(name, namespace string) flowcontrolv1.Subject {
		return flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Name: name, Namespace: namespace}}
	}
	for name, tc := range map[string]struct {
		in   flowcontrolv1.PolicyRulesWithSubjects
		want []string
	}{
		"good":                       {about(subject), nil},
		"nothing":                    {flowcontrolv1.PolicyRulesWithSubjects{}, []string{"FieldValueRequired rule", "FieldValueRequired rule.subjects"}},
		"an unknown kind of subject": {about(flowcontrolv1.Subject{Kind: "Robot", User: subject.User}), []string{"FieldValueNotSupported rule.subjects[0].kind"}},
		"a subject of another kind":  {about(flowcontrolv1.Subject{Kind: "Group", User: subject.User}), []string{"FieldValueForbidden rule.subjects[0].user", "FieldValueRequired rule.subjects[0].group"}},
		"a user without a name":      {about(flowcontrolv1.Subject{Kind: "User", User: &flowcontrolv1.UserSubject{}}), []string{"FieldValueRequired rule.subjects[0].user.name"}},
		"every service account":      {about(account("*", "a")), nil},
		"a service account of none":  {about(account("", "")), []string{"FieldValueRequired rule.subjects[0].serviceAccount.name", "FieldValueRequired rule.subjects[0].serviceAccount.namespace"}},
		"a service account, badly":   {about(account("A", "B")), []string{"FieldValueInvalid rule.subjects[0].serviceAccount.name", "FieldValueInvalid rule.subjects[0].serviceAccount.namespace"}},
		"an unknown verb":            {resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.Verbs = []string{"get", "bend"} }), []string{"FieldValueNotSupported rule.resourceRules[0].verbs"}},
		"a star and more":            {resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.APIGroups = []string{"*", "a"} }), []string{"FieldValueInvalid rule.resourceRules[0].apiGroups"}},
		"no resources":               {resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.Resources = nil }), []string{"FieldValueRequired rule.resourceRules[0].resources"}},
		"nowhere":                    {resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.ClusterScope = false }), []string{"FieldValueRequired rule.resourceRules[0].namespaces"}},
		"a bad namespace":            {resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.Namespaces = []string{"a", "B"} }), []string{"FieldValueInvalid rule.resourceRules[0].namespaces[1]"}},
		"all namespaces":             {resources(func(r *flowcontrolv1.ResourcePolicyRule) { r.Namespaces = []string{"*"} }), nil},
		"paths":                      {paths([]string{"*"}, []string{"/", "/a", "/a/*", "/*"}), nil},
		"bad paths": {paths([]string{"get"}, []string{"a", "/a b", "/a//b", "/a*", "/*/a", "/*/*", ""}), []string{
			"FieldValueInvalid rule.nonResourceRules[0].nonResourceURLs[0]", "FieldValueInvalid rule.nonResourceRules[0].nonResourceURLs[1]",
			"FieldValueInvalid rule.nonResourceRules[0].nonResourceURLs[2]", "FieldValueInvalid rule.nonResourceRules[0].nonResourceURLs[3]",
			"FieldValueInvalid rule.nonResourceRules[0].nonResourceURLs[4]", "FieldValueInvalid rule.nonResourceRules[0].nonResourceURLs[5]",
			"FieldValueInvalid rule.nonResourceRules[0].nonResourceURLs[6]",
		}},
		"a verb that resources lack": {paths([]string{"post"}, []string{"/"}), []string{"FieldValueNotSupported rule.nonResourceRules[0].verbs"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, mistakes(validateRule(tc.in, field.NewPath("rule")))); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestPriorityLevels(t *testing.T) {
	t.Parallel()
	queue := func(queues, handSize int32) flowcontrolv1.PriorityLevelConfigurationSpec {
		return flowcontrolv1.PriorityLevelConfigurationSpec{Type: "Limited", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			LimitResponse: flowcontrolv1.LimitResponse{Type: "Queue", Queuing: &flowcontrolv1.QueuingConfiguration{Queues: queues, HandSize: handSize, QueueLengthLimit: 1}},
		}}
	}
	response := func(response flowcontrolv1.LimitResponse) flowcontrolv1.PriorityLevelConfigurationSpec {
		return flowcontrolv1.PriorityLevelConfigurationSpec{Type: "Limited", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: response}}
	}
	some := &flowcontrolv1.QueuingConfiguration{}
	for name, tc := range map[string]struct {
		in   flowcontrolv1.PriorityLevelConfigurationSpec
		want []string
	}{
		"good":                    {queue(64, 8), nil},
		"as many as can be dealt": {queue(1024, 6), nil},
		"more than can be dealt":  {queue(1024, 7), []string{"FieldValueInvalid spec.limited.limitResponse.queuing.handSize"}},
		"too few queues":          {queue(5, 6), []string{"FieldValueInvalid spec.limited.limitResponse.queuing.handSize"}},
		"too many queues":         {queue(10_000_001, 1), []string{"FieldValueInvalid spec.limited.limitResponse.queuing.queues"}},
		"no type":                 {flowcontrolv1.PriorityLevelConfigurationSpec{}, []string{"FieldValueRequired spec.type"}},
		"an unknown type": {
			flowcontrolv1.PriorityLevelConfigurationSpec{Type: "x", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{}, Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{}},
			[]string{"FieldValueForbidden spec.exempt", "FieldValueForbidden spec.limited", "FieldValueNotSupported spec.type"},
		},
		"no limits":              {flowcontrolv1.PriorityLevelConfigurationSpec{Type: "Limited"}, []string{"FieldValueRequired spec.limited"}},
		"exempt by another name": {flowcontrolv1.PriorityLevelConfigurationSpec{Type: "Exempt"}, []string{"FieldValueInvalid spec.type"}},
		"no type of response":    {response(flowcontrolv1.LimitResponse{}), []string{"FieldValueRequired spec.limited.limitResponse.type"}},
		"queues to reject":       {response(flowcontrolv1.LimitResponse{Type: "Reject", Queuing: some}), []string{"FieldValueForbidden spec.limited.limitResponse.queuing"}},
		"no queues":              {response(flowcontrolv1.LimitResponse{Type: "Queue"}), []string{"FieldValueRequired spec.limited.limitResponse.queuing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, mistakes(validatePriorityLevel(&priorityLevel{Spec: tc.in}))); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestMandatoryObjectsStay(t *testing.T) {
	t.Parallel()
	for _, mandatory := range bootstrap.MandatoryFlowSchemas {
		same := mandatory.DeepCopy()
		changed := mandatory.DeepCopy()
		changed.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: "ByUser"}
		if mandatory.Spec.DistinguisherMethod != nil {
			changed.Spec.DistinguisherMethod = nil
		}
		if errs := validateFlowSchema(same); len(errs) > 0 {
			t.Errorf("%s as it is: %v", same.Name, errs)
		}
		if diff := cmp.Diff([]string{"FieldValueInvalid spec"}, mistakes(validateFlowSchema(changed))); diff != "" {
			t.Errorf("%s changed (-want,+got):\n%s", changed.Name, diff)
		}
	}
	for _, mandatory := range bootstrap.MandatoryPriorityLevelConfigurations {
		if errs := validatePriorityLevel(mandatory.DeepCopy()); len(errs) > 0 {
			t.Errorf("%s as it is: %v", mandatory.Name, errs)
		}
		if limited := mandatory.Spec.Limited; limited != nil {
			changed := mandatory.DeepCopy()
			*changed.Spec.Limited.NominalConcurrencyShares++
			if diff := cmp.Diff([]string{"FieldValueInvalid spec"}, mistakes(validatePriorityLevel(changed))); diff != "" {
				t.Errorf("%s changed (-want,+got):\n%s", changed.Name, diff)
			}
		}
	}
}

func TestConditionsHaveOneOfEachType(t *testing.T) {
	t.Parallel()
	want := []string{"FieldValueDuplicate status.conditions[2].type", "FieldValueRequired status.conditions[1].type"}
	if diff := cmp.Diff(want, mistakes(validateConditions([]string{"A", "", "A", "B"}))); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}
