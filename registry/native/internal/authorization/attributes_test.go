// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authorization

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSelectorsNarrowWhatIsAsked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in               authorizationv1.ResourceAttributes
		labels, fields   string
		wantErr          bool
		wantFieldsErr    bool
		wantInvalidCount int
	}{
		"raw": {
			in: authorizationv1.ResourceAttributes{
				LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "a=b"},
				FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: "metadata.name=c"},
			},
			labels: "a=b", fields: "metadata.name=c",
		},
		"requirements": {
			in: authorizationv1.ResourceAttributes{
				LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Exists"}}},
				FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "b", Operator: "NotIn", Values: []string{"c"}}}},
			},
			labels: "a", fields: "b!=c",
		},
		"what is understood counts": {
			in: authorizationv1.ResourceAttributes{
				LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Later"}, {Key: "b", Operator: "DoesNotExist"}}},
				FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "b", Operator: "In", Values: []string{"c", "d"}}}},
			},
			labels: "!b", wantErr: true, wantFieldsErr: true,
		},
		"requirements with mistakes": {
			in: authorizationv1.ResourceAttributes{
				LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}},
				FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "b", Operator: "Exists", Values: []string{"c"}}}},
			},
			wantErr: true, wantFieldsErr: true, wantInvalidCount: 2,
		},
		"both ways at once": {
			in: authorizationv1.ResourceAttributes{
				LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "a", Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Exists"}}},
			},
			labels: "a", wantInvalidCount: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attributes := attributesOf(nil, &tc.in, nil)
			labelRequirements, labelErr := attributes.GetLabelSelector()
			fieldRequirements, fieldErr := attributes.GetFieldSelector()
			var labels, fields string
			for _, requirement := range labelRequirements {
				labels += requirement.String()
			}
			for _, requirement := range fieldRequirements {
				fields += requirement.Field + string(requirement.Operator) + requirement.Value
			}
			if diff := cmp.Diff([]string{tc.labels, tc.fields}, []string{labels, fields}); diff != "" {
				t.Errorf("selectors (-want,+got):\n%s", diff)
			}
			if (labelErr != nil) != tc.wantErr || (fieldErr != nil) != tc.wantFieldsErr {
				t.Errorf("errors %v and %v, want %t and %t", labelErr, fieldErr, tc.wantErr, tc.wantFieldsErr)
			}
			if errs := validateAttributes(&tc.in, nil); len(errs) != tc.wantInvalidCount {
				t.Errorf("validation says %v, want %d mistakes", errs, tc.wantInvalidCount)
			}
		})
	}
}

func TestQuestionsHaveNoMetadata(t *testing.T) {
	t.Parallel()
	managed := metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "a"}}}
	if errs := validateMetadata(managed); len(errs) > 0 {
		t.Errorf("managed fields, which the server sets: %v", errs)
	}
	if errs := validateMetadata(metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}); len(errs) != 1 || errs[0].Field != "metadata" {
		t.Errorf("labels: %v, want one mistake in metadata", errs)
	}
}

func TestWhatIsIgnoredIsTold(t *testing.T) {
	t.Parallel()
	ignored := appendIgnored(appendIgnored(appendIgnored([]string{"a"}, "fieldSelector", 0, errors.New("x")), "labelSelector", 1, errors.New("x")), "labelSelector", 1, nil)
	want := []string{"a", "spec.resourceAttributes.fieldSelector ignored due to parse error", "spec.resourceAttributes.labelSelector partially ignored due to parse error"}
	if diff := cmp.Diff(want, ignored); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}
