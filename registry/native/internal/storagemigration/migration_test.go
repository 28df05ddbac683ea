// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storagemigration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func status(version string, conditions ...string) *migration {
	m := &migration{Status: storagemigrationv1.StorageVersionMigrationStatus{ResourceVersion: version}}
	for _, condition := range conditions {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now(),
		})
	}
	return m
}

func TestStatusOfAMigrationMovesOneWay(t *testing.T) {
	t.Parallel()
	const version, conditions = "FieldValueInvalid status.resourceVersion", "FieldValueInvalid status.conditions"
	for name, tc := range map[string]struct {
		old, to *migration
		want    []string
		shown   string
	}{
		"begins":                        {status(""), status("17", "Running"), nil, "Running"},
		"ends":                          {status("17", "Running"), status("17", "Succeeded"), nil, "Succeeded"},
		"begins elsewhere":              {status("17"), status("18"), []string{version}, "Unknown"},
		"begins at what is no version":  {status(""), status("x"), []string{version}, "Unknown"},
		"succeeds and fails":            {status(""), status("", "Succeeded", "Failed"), []string{conditions}, "Failed"},
		"fails after it has succeeded":  {status("", "Succeeded"), status("", "Failed"), []string{conditions}, "Failed"},
		"runs after it has failed":      {status("", "Failed"), status("", "Running"), []string{conditions}, "Running"},
		"a condition that somebody has": {status("", "Failed"), status("", "Failed", "example.com/Seen"), nil, "Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, err := range validateMigrationStatusUpdate(tc.to, tc.old) {
				got = append(got, string(err.Type)+" "+err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
			if shown := summary(tc.to); shown != tc.shown {
				t.Errorf("shown as %s, want %s", shown, tc.shown)
			}
		})
	}
}
