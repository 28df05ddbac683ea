// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/multicluster/install"
	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	registryresource "github.com/kube-annex/annex/registry/resource"
)

// at is a request that was under way from one moment to another.
func at(call, until int64, in Request, out Answer) porcupine.Operation {
	return porcupine.Operation{Input: in, Output: out, Call: call, Return: until}
}

func ask(verb Verb, claim, value string) Request {
	return Request{Verb: verb, Claim: claim, Value: value}
}

func refused(outcome Outcome) Answer { return Answer{Outcome: outcome} }

func showing(p Pair) Answer { return Answer{Outcome: OK, Shown: true, Claims: p} }

func TestWhatTheModelExplains(t *testing.T) {
	t.Parallel()
	one := Claim{Exists: true, Value: "one", Version: 5}
	two := Claim{Exists: true, Value: "two", Version: 7}
	fleet := Claim{Exists: true, Value: "fleet", Version: 6}
	held := Claim{Exists: true, Value: "one", Version: 5, Held: true}
	leaving := Claim{Exists: true, Value: "one", Version: 8, Held: true, Leaving: true}
	joined := at(0, 1, ask(create, set, "fleet"), showing(Pair{Set: fleet}))
	for name, tc := range map[string]struct {
		first   Pair
		history []porcupine.Operation
		want    bool
	}{
		"a join with an id": {Pair{ID: one}, []porcupine.Operation{joined}, true},
		"a join without":    {Pair{}, []porcupine.Operation{joined}, false},
		"a join beside an id that is being deleted": {Pair{ID: leaving}, []porcupine.Operation{
			at(0, 1, ask(create, set, "fleet"), showing(Pair{Set: Claim{Exists: true, Value: "fleet", Version: 9}})),
		}, false},
		"a join refused although there is an id": {Pair{ID: one}, []porcupine.Operation{at(0, 1, ask(create, set, "fleet"), refused(NoID))}, false},
		"a change refused after the set has gone": {Pair{ID: one, Set: fleet}, []porcupine.Operation{
			at(0, 1, ask(remove, set, ""), refused(OK)), at(2, 3, ask(mergePatch, id, "two"), refused(ChangeInSet)),
		}, false},
		"a change refused while the set goes": {Pair{ID: one, Set: fleet}, []porcupine.Operation{
			at(0, 3, ask(remove, set, ""), refused(OK)), at(1, 2, ask(mergePatch, id, "two"), refused(ChangeInSet)),
		}, true},
		"a change after a join": {Pair{ID: one}, []porcupine.Operation{joined, at(2, 3, ask(mergePatch, id, "two"), showing(Pair{ID: two}))}, false},
		"a change during a join, with an older version": {Pair{ID: one}, []porcupine.Operation{
			at(0, 3, ask(create, set, "fleet"), showing(Pair{Set: Claim{Exists: true, Value: "fleet", Version: 9}})),
			at(1, 2, ask(mergePatch, id, "two"), showing(Pair{ID: two})),
		}, true},
		"a change during a join, with a newer version": {Pair{ID: one}, []porcupine.Operation{
			at(0, 3, ask(create, set, "fleet"), showing(Pair{Set: fleet})), at(1, 2, ask(mergePatch, id, "two"), showing(Pair{ID: two})),
		}, false},
		"a deletion after a join": {Pair{ID: one, Set: fleet}, []porcupine.Operation{at(0, 1, ask(remove, id, ""), refused(OK))}, false},
		"a deletion that did not wait for a finalizer": {Pair{ID: held}, []porcupine.Operation{
			at(0, 1, ask(remove, id, ""), refused(OK)), at(2, 3, ask(get, id, ""), refused(NotFound)),
		}, false},
		"a deletion that waits": {Pair{ID: held}, []porcupine.Operation{
			at(0, 1, ask(remove, id, ""), showing(Pair{ID: leaving})), at(2, 3, ask(release, id, ""), showing(Pair{ID: leaving})),
			at(4, 5, ask(get, id, ""), refused(NotFound)),
		}, true},
		"a list of both from different moments": {Pair{ID: one}, []porcupine.Operation{
			at(0, 9, ask(mergePatch, id, "two"), showing(Pair{ID: two})),
			at(0, 9, ask(create, set, "fleet"), showing(Pair{Set: Claim{Exists: true, Value: "fleet", Version: 8}})),
			at(1, 2, ask(list, "", ""), showing(Pair{ID: one, Set: Claim{Exists: true, Value: "fleet", Version: 8}})),
		}, false},
		"a read of what was overwritten": {Pair{ID: one}, []porcupine.Operation{
			at(0, 1, ask(mergePatch, id, "two"), showing(Pair{ID: two})), at(2, 3, ask(get, id, ""), showing(Pair{ID: one})),
		}, false},
		"an overwritten version named": {Pair{ID: two}, []porcupine.Operation{
			at(0, 1, Request{Verb: put, Claim: id, Value: "three", Version: 5}, showing(Pair{ID: Claim{Exists: true, Value: "three", Version: 8}})),
		}, false},
		"no answer, and done": {Pair{ID: one}, []porcupine.Operation{
			at(0, never, ask(mergePatch, id, "two"), refused(Unknown)), at(1, 2, ask(get, id, ""), showing(Pair{ID: two})),
		}, true},
		"no answer, and done after all": {Pair{ID: one}, []porcupine.Operation{
			at(0, never, ask(mergePatch, id, "two"), refused(Unknown)), at(1, 2, ask(get, id, ""), showing(Pair{ID: one})),
			at(3, 4, ask(get, id, ""), showing(Pair{ID: two})),
		}, true},
		"no answer, and undone": {Pair{ID: one}, []porcupine.Operation{
			at(0, never, ask(mergePatch, id, "two"), refused(Unknown)), at(1, 2, ask(get, id, ""), showing(Pair{ID: two})),
			at(3, 4, ask(get, id, ""), showing(Pair{ID: one})),
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := linearizable(tc.first, tc.history) == porcupine.Ok; got != tc.want {
				t.Errorf("explained: %t, want %t; %s", got, tc.want, tell(tc.first, tc.history))
			}
		})
	}
}

func TestMomentsOfTheHistory(t *testing.T) {
	t.Parallel()
	codec := serializer.NewCodecFactory(registryresource.NewScheme(install.Install)).LegacyCodec(v1alpha1.SchemeGroupVersion)
	write := func(name, value string, change ...func(*v1alpha1.ClusterClaim)) *clientv3.Event {
		claim := &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u1"}, Spec: v1alpha1.ClusterClaimSpec{Value: value}}
		for _, c := range change {
			c(claim)
		}
		stored, err := runtime.Encode(codec, claim)
		if err != nil {
			t.Fatal(err)
		}
		return &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{Key: []byte(claimKeys + name), Value: stored}}
	}
	gone := func(name string) *clientv3.Event {
		return &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(claimKeys + name)}}
	}
	going := func(claim *v1alpha1.ClusterClaim) { claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	another := func(claim *v1alpha1.ClusterClaim) { claim.UID = types.UID("u2") }
	for name, tc := range map[string]struct {
		events []*clientv3.Event
		want   int
	}{
		"a membership":                        {[]*clientv3.Event{write(id, "a"), write(set, "s"), gone(set), write(id, "b"), gone(id)}, 0},
		"a set without an id":                 {[]*clientv3.Event{write(set, "s"), write(id, "a")}, 1},
		"an id that goes":                     {[]*clientv3.Event{write(id, "a"), write(set, "s"), gone(id), gone(set)}, 1},
		"an id that is being deleted":         {[]*clientv3.Event{write(id, "a"), write(set, "s"), write(id, "a", going), gone(set)}, 1},
		"a change":                            {[]*clientv3.Event{write(id, "a"), write(set, "s"), write(id, "b"), gone(set)}, 1},
		"a change while the set is deleted":   {[]*clientv3.Event{write(id, "a"), write(set, "s"), write(set, "s", going), write(id, "b"), gone(set)}, 1},
		"another of the same value":           {[]*clientv3.Event{write(id, "a"), write(set, "s"), write(id, "a", another), gone(set)}, 1},
		"a change between two memberships":    {[]*clientv3.Event{write(id, "a"), write(set, "s"), gone(set), write(id, "b"), write(set, "s")}, 0},
		"another claim beside the two claims": {[]*clientv3.Event{write("region.example.com", "a"), gone("region.example.com")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := NewHistory()
			for i, event := range tc.events {
				event.Kv.ModRevision = int64(i) + 2
			}
			if err := history.Play(tc.events, history.step); err != nil {
				t.Fatal(err)
			}
			if found := history.Violations(); len(found) != tc.want {
				t.Errorf("found %q, want %d", found, tc.want)
			}
		})
	}
}
