// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestNoObjectLosesItsLastOwner has an object that somebody else has changed since it was found that one of its owners is gone and the
// other holds it. Without any owner it would stay for ever.
func TestNoObjectLosesItsLastOwner(t *testing.T) {
	t.Parallel()
	refs := func(uids ...types.UID) (all []metav1.OwnerReference) {
		for _, uid := range uids {
			all = append(all, metav1.OwnerReference{UID: uid})
		}
		return all
	}
	for name, tc := range map[string]struct{ now, want []metav1.OwnerReference }{
		"as it was":                    {refs("gone", "holds"), refs("holds")},
		"without the one that is gone": {refs("holds"), refs("holds")},
		"without the one that held it": {refs("gone"), refs("gone")},
		"with one more":                {refs("gone", "new"), refs("new")},
	} {
		if diff := cmp.Diff(tc.want, relieved(tc.now, sets.New[types.UID]("gone"))); diff != "" {
			t.Errorf("%s (-want,+got):\n%s", name, diff)
		}
	}
}
