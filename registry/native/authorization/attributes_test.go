// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authorization

import (
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
