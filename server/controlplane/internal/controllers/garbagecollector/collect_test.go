// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"testing"
	"time"

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

// TestAKindThatIsTakenOver has a server go on with a kind whose definition is gone. What it keeps is not deleted with the definition.
func TestAKindThatIsTakenOver(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tc := range map[string]struct {
		since   time.Time
		defined bool
		want    time.Time
		known   bool
	}{
		"defined":                  {time.Time{}, true, time.Time{}, true},
		"defined again":            {now.Add(-time.Hour), true, time.Time{}, true},
		"not defined any more":     {time.Time{}, false, now, true},
		"still served for a while": {now.Add(-takenOver), false, now.Add(-takenOver), true},
		"taken over":               {now.Add(-takenOver - 1), false, now.Add(-takenOver - 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if since, known := servedWithout(tc.since, now, tc.defined); !since.Equal(tc.want) || known != tc.known {
				t.Errorf("got %v, %t, want %v, %t", since, known, tc.want, tc.known)
			}
		})
	}
}
