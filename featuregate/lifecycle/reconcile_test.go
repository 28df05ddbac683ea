// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned/fake"
	"github.com/kube-annex/annex/internal/heartbeat"
)

// newLeading returns an engine that has not been run, and is the only replica, of a server that knows Foo.
func newLeading(t *testing.T, stored ...*v1alpha1.Feature) (*observing, *fake.Clientset) {
	t.Helper()
	o := newObserving(t)
	client := fake.NewSimpleClientset()
	for _, f := range stored {
		if err := client.Tracker().Add(f); err != nil {
			t.Fatal(err)
		}
		if err := o.informer.GetStore().Add(f); err != nil {
			t.Fatal(err)
		}
	}
	o.client = client.FeaturesV1alpha1().Features("ns")
	o.features["Foo"] = gate()
	me := says("a", off, byFlag)
	me.holder = o.identity.Holder
	o.replicas = []replica{me}
	return o, client
}

func verbs(client *fake.Clientset) []string {
	var out []string
	for _, action := range client.Actions() {
		out = append(out, action.GetVerb())
	}
	return out
}

func atVersion(version string, f *v1alpha1.Feature) *v1alpha1.Feature {
	f.UID, f.ResourceVersion = "1", version
	return f
}

func TestWhatReconcileWrites(t *testing.T) {
	t.Parallel()
	settled := func() *v1alpha1.Feature {
		f := atVersion("5", feature("Off", off, byFlag))
		f.Status = decide(f, look(says("a", off, byFlag))).status
		return f
	}
	resource := schema.GroupResource{Resource: "features"}
	for name, tc := range map[string]struct {
		feature string
		stored  []*v1alpha1.Feature
		edit    func(*observing, *fake.Clientset)
		want    []string
		fails   bool
	}{
		"new":                        {feature: "Foo", want: []string{"create", "update"}},
		"new, and somebody is first": {feature: "Foo", edit: refuse("create", apierrors.NewAlreadyExists(resource, "Foo")), want: []string{"create"}},
		"new, and cannot be created": {feature: "Foo", edit: refuse("create", errors.New("no")), want: []string{"create"}, fails: true},
		"unknown":                    {feature: "Bar"},
		"settled":                    {feature: "Foo", stored: []*v1alpha1.Feature{settled()}},
		"another replica leads": {
			feature: "Foo", stored: []*v1alpha1.Feature{atVersion("5", feature("On", on, byFlag))},
			edit: func(o *observing, _ *fake.Clientset) { o.replicas[0].holder = "other" },
		},
		"nobody leads": {
			feature: "Foo", stored: []*v1alpha1.Feature{atVersion("5", feature("On", on, byFlag))}, edit: func(o *observing, _ *fake.Clientset) { o.replicas = nil },
		},
		"to be turned off": {feature: "Foo", stored: []*v1alpha1.Feature{atVersion("5", feature("On", on, byFlag))}, edit: warm, want: []string{"update"}},
		"the status cannot be written": {
			feature: "Foo", stored: []*v1alpha1.Feature{atVersion("5", feature("On", on, byFlag))},
			edit: refuse("update", errors.New("no")), want: []string{"update"}, fails: true,
		},
		"written by this replica since": {
			feature: "Foo", stored: []*v1alpha1.Feature{atVersion("5", feature("On", on, byFlag))},
			edit: func(o *observing, _ *fake.Clientset) {
				latest := settled()
				latest.ResourceVersion = "6"
				o.setLatest(o.memory("Foo"), latest)
			},
		},
		"seen newer than this replica wrote it": {
			feature: "Foo", stored: []*v1alpha1.Feature{settled()},
			edit: func(o *observing, _ *fake.Clientset) {
				o.setLatest(o.memory("Foo"), atVersion("4", feature("On", on, byFlag)))
			},
		},
		"seen as this replica wrote it": {
			feature: "Foo", stored: []*v1alpha1.Feature{settled()},
			edit: func(o *observing, _ *fake.Clientset) {
				o.setLatest(o.memory("Foo"), atVersion("5", feature("On", on, byFlag)))
			},
		},
		"another Feature of the name": {
			feature: "Foo", stored: []*v1alpha1.Feature{settled()},
			edit: func(o *observing, _ *fake.Clientset) {
				other := atVersion("6", feature("On", on, byFlag))
				other.UID = "2"
				o.setLatest(o.memory("Foo"), other)
			},
		},
		"created by this replica, and not seen yet": {
			feature: "Foo", edit: func(o *observing, _ *fake.Clientset) { o.setLatest(o.memory("Foo"), settled()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, client := newLeading(t, tc.stored...)
			if tc.edit != nil {
				tc.edit(o, client)
			}
			if _, err := o.reconcile(t.Context(), tc.feature); (err != nil) != tc.fails {
				t.Errorf("the error is %v, want one %t", err, tc.fails)
			}
			if diff := cmp.Diff(tc.want, verbs(client)); diff != "" {
				t.Errorf("requests (-want,+got):\n%s", diff)
			}
		})
	}
}

func warm(o *observing, _ *fake.Clientset) { o.warmAt = now }

func refuse(verb string, err error) func(*observing, *fake.Clientset) {
	return func(o *observing, client *fake.Clientset) {
		o.warmAt = now
		client.PrependReactor(verb, "features", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	}
}

// TestAReplicaThatNoLongerLeadsEndsItsAttempt keeps the attempt until it has ended.
func TestAReplicaThatNoLongerLeadsEndsItsAttempt(t *testing.T) {
	t.Parallel()
	o, _ := newLeading(t)
	o.replicas[0].holder = "other"
	canceled := 0
	running := &taskRun{marked: attempted(feature("TurningOff", off, byFlag, "Sweep Running")).Status, cancel: func() { canceled++ }}
	entry := o.memory("Foo")
	entry.taskRun, entry.counted, entry.poll = running, true, &usePoll{}
	if _, err := o.reconcile(t.Context(), "Foo"); err != nil || canceled != 1 || entry.taskRun != running || !entry.counted {
		t.Errorf("while it runs: %v, canceled %d times, %+v", err, canceled, entry)
	}
	running.ended = true
	if _, err := o.reconcile(t.Context(), "Foo"); err != nil || entry.taskRun != nil || entry.counted || entry.poll != nil {
		t.Errorf("after it has ended: %v, %+v", err, entry)
	}
}

func TestWhatIsRememberedOfAWrite(t *testing.T) {
	t.Parallel()
	open, settled := feature("On", on, byFlag), feature("On", on, byFlag)
	open.Status.UseEvaluationTime = &metav1.Time{Time: now}
	before := now.Add(-time.Hour)
	for name, tc := range map[string]struct {
		feature   *v1alpha1.Feature
		todo      decision
		rechecked time.Time
		want      time.Time
	}{
		"agreement":                             {settled, decision{}, before, time.Time{}},
		"agreement while a question is open":    {open, decision{}, before, before},
		"disagreement, first":                   {settled, decision{disagreement: true}, time.Time{}, now},
		"disagreement, again":                   {settled, decision{disagreement: true}, before, before},
		"asked again":                           {open, decision{disagreement: true, rechecking: true}, before, now},
		"agreement, and nobody has disagreed":   {settled, decision{}, time.Time{}, time.Time{}},
		"an open question, nobody disagreed":    {open, decision{}, time.Time{}, time.Time{}},
		"disagreement while a question is open": {open, decision{disagreement: true}, before, before},
	} {
		o := newObserving(t)
		e := &featureMemory{rechecked: tc.rechecked}
		o.remember(e, tc.feature, tc.todo, now)
		if !e.rechecked.Equal(tc.want) || !e.written.Equal(now) {
			t.Errorf("%s: last asked again %s and written %s, want %s and %s", name, e.rechecked, e.written, tc.want, now)
		}
	}
	o := newObserving(t)
	e := &featureMemory{counted: true, poll: &usePoll{resourceVersion: "7", extensions: 1}}
	o.remember(e, open, decision{pollExtended: true}, now)
	if !e.counted || e.poll.extensions != 2 || e.poll.resourceVersion != "7" || !e.poll.evaluationTime.Equal(open.Status.UseEvaluationTime) {
		t.Errorf("after more time was given: counted %t, question %+v", e.counted, e.poll)
	}
	o.remember(e, settled, decision{transitionStarted: true}, now)
	if e.counted || e.poll != nil {
		t.Errorf("after a transition began: counted %t, question %+v", e.counted, e.poll)
	}
	if o.remember(e, settled, decision{counted: true}, now); !e.counted {
		t.Error("the count is forgotten")
	}
}

func TestWhatIsDueByTheEntry(t *testing.T) {
	t.Parallel()
	o := newObserving(t)
	f := feature("On", on, byFlag)
	for name, tc := range map[string]struct {
		entry             featureMemory
		progress, recheck bool
	}{
		"never written":           {featureMemory{}, true, false},
		"written just now":        {featureMemory{written: now, rechecked: now}, false, false},
		"almost due":              {featureMemory{written: now.Add(1 - time.Second), rechecked: now.Add(1 - 5*time.Minute)}, false, false},
		"due":                     {featureMemory{written: now.Add(-time.Second), rechecked: now.Add(-5 * time.Minute)}, true, true},
		"asked at once by others": {featureMemory{written: now, rechecked: time.Unix(0, 0)}, false, true},
	} {
		if v := o.input(f, &tc.entry, nil); v.progressDue != tc.progress || v.recheckDue != tc.recheck {
			t.Errorf("%s: progress due %t, recheck due %t; want %t, %t", name, v.progressDue, v.recheckDue, tc.progress, tc.recheck)
		}
	}
}

func TestADeletedFeatureIsForgotten(t *testing.T) {
	t.Parallel()
	written := atVersion("5", feature("On", on, byFlag))
	another := written.DeepCopy()
	another.UID = "2"
	for name, tc := range map[string]struct {
		obj  any
		left bool
	}{
		"the Feature":                       {written, false},
		"the Feature, unseen":               {cache.DeletedFinalStateUnknown{Key: "ns/Foo", Obj: written}, false},
		"a former one":                      {another, true},
		"one whose last state is not known": {cache.DeletedFinalStateUnknown{Key: "ns/Foo"}, true},
	} {
		o := newObserving(t)
		o.setLatest(o.memory("Foo"), written)
		if o.forgetDeleted(tc.obj); (o.memory("Foo").latest != nil) != tc.left {
			t.Errorf("%s is deleted: still known %t, want %t", name, !tc.left, tc.left)
		}
	}
	o := newObserving(t)
	o.forgetDeleted(written)
	o.memory("Foo")
	o.forgetDeleted(written)
}

func TestWhatIsPutIntoTheQueue(t *testing.T) {
	t.Parallel()
	o, _ := newLeading(t, feature("On", on, byFlag), &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "Stored", Namespace: "ns"}})
	o.features["Local"] = gate()
	o.enqueueAll()
	if diff := cmp.Diff([]string{"Foo", "Local", "Stored"}, o.queued()); diff != "" {
		t.Errorf("all (-want,+got):\n%s", diff)
	}
	o.enqueue(feature("On", on, byFlag))
	o.enqueue(cache.DeletedFinalStateUnknown{Key: "ns/Gone"})
	o.enqueue("no object")
	o.enqueue(cache.DeletedFinalStateUnknown{Key: "no/good/key"})
	if diff := cmp.Diff([]string{"Foo", "Gone"}, o.queued()); diff != "" {
		t.Errorf("by events (-want,+got):\n%s", diff)
	}
}

func TestWorkIsRepeatedAfterErrorsOnly(t *testing.T) {
	t.Parallel()
	settled := atVersion("5", feature("Off", off, byFlag))
	settled.Status = decide(settled, look(says("a", off, byFlag))).status
	for name, tc := range map[string]struct {
		feature *v1alpha1.Feature
		err     error
		repeats int
	}{
		"done, and looked at again later": {atVersion("5", feature("On", on, byFlag)), nil, 0},
		"settled":                         {settled, nil, 0},
		"conflict":                        {atVersion("5", feature("On", on, byFlag)), apierrors.NewConflict(schema.GroupResource{Resource: "features"}, "Foo", nil), 1},
		"error":                           {atVersion("5", feature("On", on, byFlag)), errors.New("no"), 1},
	} {
		o, client := newLeading(t, tc.feature)
		warm(o, client)
		if tc.err != nil {
			refuse("update", tc.err)(o, client)
		}
		later := &laterQueue{TypedRateLimitingInterface: o.queue}
		o.queue = later
		o.queue.Add("Foo")
		if !o.workNext(t.Context()) {
			t.Errorf("%s: the queue was shut down", name)
		}
		if got := o.queue.NumRequeues("Foo"); got != tc.repeats {
			t.Errorf("%s: %d repetitions, want %d", name, got, tc.repeats)
		}
		if want := tc.err == nil && tc.feature != settled; (len(later.after) > 0) != want || slices.Contains(later.after, 0) {
			t.Errorf("%s: looked at again after %v, want a time %t", name, later.after, want)
		}
	}
}

// laterQueue records what is added for later.
type laterQueue struct {
	workqueue.TypedRateLimitingInterface[string]
	after []time.Duration
}

func (q *laterQueue) AddAfter(_ string, after time.Duration) { q.after = append(q.after, after) }

// TestOnlyTheFirstReplicaForgetsLeases deletes Leases that expired long ago: those of reporters only in annex-system.
func TestOnlyTheFirstReplicaForgetsLeases(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		namespace string
		leads     bool
		want      []string
	}{
		"in annex-system":  {"annex-system", true, []string{"dead-member", "dead-reporter"}},
		"in another":       {"ns", true, []string{"dead-member"}},
		"another is first": {"annex-system", false, nil},
	} {
		clock, options := clocktesting.NewFakeClock(now), goodOptions()
		options.Namespace, options.Clock = tc.namespace, clock
		engine, err := New(options)
		if err != nil {
			t.Fatal(err)
		}
		kubernetes := kubernetesfake.NewClientset()
		engine.leases = kubernetes.CoordinationV1().Leases(tc.namespace)
		add := func(to *heartbeat.Observer, name string) {
			l := lease(name, "x", now)
			l.Namespace, l.UID, l.ResourceVersion = tc.namespace, types.UID(name), "1"
			if to != nil {
				to.OnAdd(l, false)
			}
			if _, err := engine.leases.Create(t.Context(), l, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		add(engine.replicaLeases, "dead-member")
		add(engine.allReporterLeases, "dead-reporter")
		clock.Step(time.Hour)
		add(engine.replicaLeases, "live-member")
		add(engine.allReporterLeases, "live-reporter")
		me := says("a", off, byFlag)
		if tc.leads {
			me.holder = engine.identity.Holder
		}
		engine.replicas = []replica{me}
		engine.deleteExpiredLeases(t.Context())
		left, err := engine.leases.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var gone []string
		for _, lease := range []string{"dead-member", "dead-reporter", "live-member", "live-reporter"} {
			if !slices.ContainsFunc(left.Items, func(l coordinationv1.Lease) bool { return l.Name == lease }) {
				gone = append(gone, lease)
			}
		}
		if !slices.Equal(gone, tc.want) {
			t.Errorf("%s: %q are deleted, want %q", name, gone, tc.want)
		}
	}
}

// TestAllVersionsChooseTheSameReplica pins the choice, since replicas of several versions must agree on it.
func TestAllVersionsChooseTheSameReplica(t *testing.T) {
	t.Parallel()
	var replicas []replica
	for _, name := range []string{"a", "b", "c", "d"} {
		r := says(name, on, byFlag)
		r.features = nil
		replicas = append(replicas, r)
	}
	got := map[string]string{}
	for _, name := range []string{"One", "Two", "Three", "Four"} {
		assigned, _ := assignee(replicas, "ns", name)
		got[name] = assigned.holder
	}
	if diff := cmp.Diff(map[string]string{"One": "c", "Two": "d", "Three": "d", "Four": "d"}, got); diff != "" {
		t.Errorf("assignees (-want,+got):\n%s", diff)
	}
}
