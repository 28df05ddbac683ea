// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// younger compiles in this version and not in the one before it.
const younger = "['a'].includes('a')"

func match() *admissionregistrationv1.MatchResources {
	match := &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"a"}, APIVersions: []string{"v1"}, Resources: []string{"b"}},
		},
	}}}
	defaultMatchResources(match)
	return match
}

func fieldsOf(errs field.ErrorList) []string {
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	return fields
}

func TestStoredExpressionsMayUseWhatNewOnesMayNot(t *testing.T) {
	t.Parallel()
	validating := &admissionregistrationv1.ValidatingAdmissionPolicy{Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(admissionregistrationv1.Fail), MatchConstraints: match(),
		MatchConditions:  []admissionregistrationv1.MatchCondition{{Name: "a", Expression: " " + younger}},
		Variables:        []admissionregistrationv1.Variable{{Name: "a", Expression: younger}},
		Validations:      []admissionregistrationv1.Validation{{Expression: younger + " || variables.a", MessageExpression: "string(" + younger + ")"}},
		AuditAnnotations: []admissionregistrationv1.AuditAnnotation{{Key: "a", ValueExpression: " string(" + younger + ")"}},
	}}
	validating.Name = "policy"
	mutating := &admissionregistrationv1.MutatingAdmissionPolicy{Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(admissionregistrationv1.Fail), MatchConstraints: match(), ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "a", Expression: younger}},
		Variables:       []admissionregistrationv1.Variable{{Name: "a", Expression: younger}},
		Mutations: []admissionregistrationv1.Mutation{
			{PatchType: admissionregistrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
				Expression: " Object{a: " + younger + "}",
			}},
			{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{
				Expression: " [JSONPatch{op: 'add', path: '/a', value: " + younger + "}]",
			}},
		},
	}}
	// The kind of the parameters has changed, so that match conditions are compiled, too.
	oldValidating, oldMutating := validating.DeepCopy(), mutating.DeepCopy()
	oldValidating.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	oldMutating.Spec.ParamKind = oldValidating.Spec.ParamKind

	cel := newLanguage()
	for name, tc := range map[string]struct {
		errs field.ErrorList
		want []string
	}{
		"a new validating policy": {validateValidatingPolicy(cel, validating, nil), []string{
			"spec.matchConditions[0].expression", "spec.variables[0].expression", "spec.validations[0].expression",
			"spec.validations[0].messageExpression", "spec.auditAnnotations[0].valueExpression",
		}},
		"a stored validating policy": {validateValidatingPolicy(cel, validating, oldValidating), nil},
		"a new mutating policy": {validateMutatingPolicy(cel, mutating, nil), []string{
			"spec.matchConditions[0].expression", "spec.variables[0].expression",
			"spec.mutations[0].applyConfiguration.expression", "spec.mutations[1].jsonPatch.expression",
		}},
		"a stored mutating policy": {validateMutatingPolicy(cel, mutating, oldMutating), nil},
	} {
		if diff := cmp.Diff(tc.want, fieldsOf(tc.errs)); diff != "" {
			t.Errorf("%s: fields that are refused (-want,+got):\n%s\n%v", name, diff, tc.errs.ToAggregate())
		}
	}
}

// TestUnchangedMatchConditionsStay covers conditions that no version of today would accept.
func TestUnchangedMatchConditionsStay(t *testing.T) {
	t.Parallel()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(admissionregistrationv1.Fail), MatchConstraints: match(),
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "nonsense"}},
		Validations:     []admissionregistrationv1.Validation{{Expression: "true"}},
	}}
	changed := policy.DeepCopy()
	changed.Spec.Validations[0].Expression = "false"
	if errs := validateValidatingPolicy(newLanguage(), changed, policy); len(errs) > 0 {
		t.Errorf("with the conditions that are stored: %v", errs)
	}
	changed.Spec.MatchConditions = append(changed.Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: "b", Expression: "true"})
	want := []string{"spec.matchConditions[0].expression"}
	if diff := cmp.Diff(want, fieldsOf(validateValidatingPolicy(newLanguage(), changed, policy))); diff != "" {
		t.Errorf("fields that are refused with another condition (-want,+got):\n%s", diff)
	}
}

// TestKindsAreListedWithoutCompilers runs alone, because it counts all allocations.
func TestKindsAreListedWithoutCompilers(t *testing.T) {
	// A compiler takes some thousand.
	const enough = 1000
	if allocations := testing.AllocsPerRun(1, func() { Kinds(nil, nil) }); allocations > enough {
		t.Errorf("listing the kinds took %.0f allocations, want at most %d", allocations, enough)
	}
}

func TestIsIdentifier(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]bool{
		"a": true, "_": true, "A9_z": true, "__x": true, "int": true, "nullable": true,
		"": false, "9a": false, "a-b": false, "a.b": false, "ä": false, "a ": false,
		"null": false, "as": false, "break": false, "const": false, "continue": false, "else": false, "for": false, "function": false,
		"if": false, "import": false, "let": false, "loop": false, "package": false, "return": false, "var": false, "void": false,
	} {
		if got := isIdentifier(word); got != want {
			t.Errorf("%q: got %t, want %t", word, got, want)
		}
	}
}
