// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusteridentity

import (
	"context"
	"math"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	multiclusterclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/multicluster/v1alpha1"
)

// scripted are claims that go from one state to the next before certain reads. All other methods are missing.
type scripted struct {
	multiclusterclient.ClusterClaimInterface
	states []pair
	// steps says how many states are over before each read.
	steps []int
	reads int
}

func (s *scripted) List(_ context.Context, options metav1.ListOptions) (*v1alpha1.ClusterClaimList, error) {
	if s.reads < len(s.steps) {
		s.states = s.states[s.steps[s.reads]:]
	}
	s.reads++
	list := &v1alpha1.ClusterClaimList{}
	for name, claim := range map[string]claim{"id.k8s.io": s.states[0].id, "clusterset.k8s.io": s.states[0].set} {
		if claim.exists && options.FieldSelector == "metadata.name="+name {
			list.Items = append(list.Items, v1alpha1.ClusterClaim{
				ObjectMeta: metav1.ObjectMeta{Name: name, UID: claim.uid}, Spec: v1alpha1.ClusterClaimSpec{Value: claim.value},
			})
		}
	}
	return list, nil
}

func made(value string) claim {
	if value == "" {
		return claim{}
	}
	return claim{exists: true, uid: types.UID("uid of " + value), value: value}
}

// TestALookIsOfOneMembership moves a cluster between any two reads of a look. What is seen must have been true once; where there is no
// set, the id must have been there at some time.
func TestALookIsOfOneMembership(t *testing.T) {
	t.Parallel()
	life := []pair{
		{made("1"), made("a")}, {made("1"), claim{}}, {made("2"), claim{}}, {made("2"), made("b")}, {made("2"), claim{}}, {}, {made("3"), claim{}}, {made("3"), made("c")},
	}
	legal := map[string]bool{}
	for _, p := range life {
		legal[p.identity().String()] = true
	}
	// Each digit of a script is how many states are over before a read.
	const reads, most = 6, 3
	for begin := range life {
		for script := range int(math.Pow(most+1, reads)) {
			s := &scripted{states: life[begin:]}
			for left := len(life) - begin - 1; script > 0; script /= most + 1 {
				step := min(script%(most+1), left)
				s.steps, left = append(s.steps, step), left-step
			}
			r := &reading{claims: s}
			got, err := r.look(t.Context())
			if identity := got.identity(); err != nil || !legal[identity.String()] {
				t.Fatalf("beginning at %v with steps before %v: saw %v (%v), which has never been", life[begin].identity(), s.steps, identity, err)
			}
		}
	}
}

func TestALookSkipsNoMembershipOfTheSameName(t *testing.T) {
	t.Parallel()
	again := made("a")
	again.uid = "another"
	s := &scripted{states: []pair{{made("1"), made("a")}, {made("1"), again}}, steps: []int{0, 0, 1}}
	got, err := (&reading{claims: s}).look(t.Context())
	if want := (pair{made("1"), again}); err != nil || got != want {
		t.Errorf("saw %v (%v), want %v", got, err, want)
	}
	if s.reads != 5 {
		t.Errorf("%d reads, want 5: set, id, set, id, set", s.reads)
	}
}
