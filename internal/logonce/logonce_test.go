// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package logonce_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-annex/annex/internal/logonce"
)

func TestOnlyChangesAreReported(t *testing.T) {
	t.Parallel()
	type attempt struct {
		err     error
		changed bool
	}
	want := []attempt{
		{nil, false},
		{errors.New("away"), true},
		{errors.New("away"), false},
		{errors.New("forbidden"), true},
		{nil, true},
		{nil, false},
		{errors.New("forbidden"), true},
	}
	var logged logonce.Error
	for i, a := range want {
		if got := logged.Changed(a.err); got != a.changed {
			t.Errorf("attempt %d with the error %v: changed is %v, want %v", i, a.err, got, a.changed)
		}
	}
	got := []bool{logged.ChangedText("Forbidden"), logged.ChangedText("Forbidden"), logged.ChangedText("")}
	if diff := cmp.Diff([]bool{true, false, true}, got); diff != "" {
		t.Errorf("changes of a text (-want,+got):\n%s", diff)
	}
}
