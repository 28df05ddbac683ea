// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/generated/clientset/versioned/fake"
)

// observing is an engine that sees what its test puts before it, and writes nothing.
type observing struct {
	*Engine
	t     *testing.T
	clock *clocktesting.FakeClock
}

func newObserving(t *testing.T) *observing {
	t.Helper()
	clock := clocktesting.NewFakeClock(now)
	engine, err := New(Options{
		Component: "server", Instance: "a", Version: "v1.0.0", Namespace: "ns",
		Client: fake.NewSimpleClientset(), Leases: kubernetesfake.NewClientset().CoordinationV1(), Clock: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	engine.informer = informerOf(engine.options.Client, engine.client, &v1alpha1.Feature{}, "")
	engine.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	t.Cleanup(engine.queue.ShutDown)
	return &observing{Engine: engine, t: t, clock: clock}
}

// sees has a Feature whose state is from nobody but reports, with uses as "component version value".
func (o *observing) sees(name string, source v1alpha1.Source, uses ...string) {
	o.t.Helper()
	f := &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Status: v1alpha1.FeatureStatus{Source: source}}
	for _, use := range uses {
		fields := strings.Fields(use)
		f.Status.Uses = append(f.Status.Uses, v1alpha1.Use{
			Component: fields[0], Version: fields[1], Value: v1alpha1.Value(fields[2]), ReportTime: &metav1.Time{Time: now.AddDate(-3, 0, 0)},
		})
	}
	if err := o.informer.GetStore().Add(f); err != nil {
		o.t.Fatal(err)
	}
}

// reporter has a reporter of a version renew its Lease, which is good for 30 s. Exactly is what its annotation says.
func (o *observing) reporter(component, version, exactly string) {
	l := lease(component+"-"+version, "x", o.clock.Now())
	l.Labels = map[string]string{featuregate.LabelComponent: component, featuregate.LabelVersion: version}
	if exactly != "" {
		l.Annotations = map[string]string{featuregate.AnnotationVersion: exactly}
	}
	o.reporters.OnAdd(l, false)
}

// left lists the components whose uses a decision about a Feature would leave in it now.
func (o *observing) left(name string) string {
	o.t.Helper()
	obj, _, err := o.informer.GetStore().GetByKey("ns/" + name)
	if err != nil {
		o.t.Fatal(err)
	}
	f := obj.(*v1alpha1.Feature)
	var out []string
	for _, use := range next(f, o.view(f, &entry{}, nil)).status.Uses {
		out = append(out, use.Component)
	}
	return strings.Join(slices.Compact(out), " ")
}

func (o *observing) queued() []string {
	var out []string
	for o.queue.Len() > 0 {
		name, _ := o.queue.Get()
		o.queue.Done(name)
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func TestUsesWithoutReportersGo(t *testing.T) {
	t.Parallel()
	o := newObserving(t)
	uses := []string{"gone v1 Enabled", "gone v1 Disabled", "here v1 Enabled", "exact v1+a Enabled", "sanitized v1+a Enabled", "restarts v1 Enabled"}
	o.sees("Reported", "", uses...)
	o.sees("Seen", v1alpha1.SourceObserved, uses...)
	minute := func(others ...string) {
		o.clock.Step(time.Minute)
		for _, other := range others {
			o.reporter(other, "v1", "v1")
		}
		o.reporter("here", "v1", "v1")
		o.reporter("gone", "v2", "v2")
		o.reporter("exact", "v1_a", "v1+a")
		o.reporter("sanitized", "v1_a", "")
		o.watchUses()
	}
	minute()
	for i := range 59 {
		if i == 30 {
			minute("restarts")
		} else {
			minute()
		}
	}
	const all = "gone here exact sanitized restarts"
	if got := o.left("Reported"); got != all || len(o.queued()) > 0 {
		t.Errorf("after almost an hour: %s are left, want %s", got, all)
	}
	minute()
	if got, want := o.left("Reported"), "here exact sanitized restarts"; got != want {
		t.Errorf("after an hour: %s are left, want %s", got, want)
	}
	if got := o.left("Seen"); got != all {
		t.Errorf("an observed Feature: %s are left, want %s", got, all)
	}
	if got := o.queued(); !slices.Equal(got, []string{"Reported"}) {
		t.Errorf("to be looked at: %v, want the one Feature with uses that are over", got)
	}
	o.reporter("gone", "v1", "v1")
	if got := o.left("Reported"); got != all {
		t.Errorf("after one of them came back at the last moment: %s are left, want %s", got, all)
	}
	for range 30 {
		minute()
	}
	if got, want := o.left("Reported"), "here exact sanitized restarts"; got != want {
		t.Errorf("almost an hour after the last sign of another: %s are left, want %s", got, want)
	}
	minute()
	minute()
	if got, want := o.left("Reported"), "here exact sanitized"; got != want {
		t.Errorf("an hour after the last sign of another: %s are left, want %s", got, want)
	}
}

// TestCrowdedListsMakeRoom has a list that is nearly full, on which the uses of live reporters stay.
func TestCrowdedListsMakeRoom(t *testing.T) {
	t.Parallel()
	o := newObserving(t)
	var uses []string
	for i := range crowded {
		uses = append(uses, fmt.Sprintf("gone v%d Enabled", i))
	}
	o.sees("Crowded", "", append(uses, "here v1 Enabled")...)
	o.reporter("here", "v1", "v1")
	o.watchUses()
	if got, want := o.left("Crowded"), "gone here"; got != want {
		t.Errorf("at first: %s are left, want %s", got, want)
	}
	o.clock.Step(time.Minute)
	o.reporter("here", "v1", "v1")
	o.watchUses()
	if got, want := o.left("Crowded"), "here"; got != want {
		t.Errorf("after a minute: %s are left, want %s", got, want)
	}
	if got := o.queued(); !slices.Equal(got, []string{"Crowded"}) {
		t.Errorf("to be looked at: %v, want the crowded Feature", got)
	}
}
