// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-annex/annex/server/controlplane/bootstrappolicy"
)

// TestEveryControllerHasAnAccountOfItsOwn compares accounts with those that have rights.
func TestEveryControllerHasAnAccountOfItsOwn(t *testing.T) {
	t.Parallel()
	want := []string{bootstrappolicy.InformersAccount}
	for _, d := range controllerDescriptors() {
		if d.account != "" {
			want = append(want, d.account)
		}
	}
	var got []string
	policy := bootstrappolicy.Standard()
	for _, binding := range policy.ClusterRoleBindings {
		for _, subject := range binding.Subjects {
			if subject.Kind == "ServiceAccount" {
				got = append(got, subject.Name)
			}
		}
	}
	for _, binding := range policy.RoleBindings {
		for _, subject := range binding.Subjects {
			got = append(got, subject.Name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("accounts that act, and accounts that have rights (-want,+got):\n%s", diff)
	}
}
