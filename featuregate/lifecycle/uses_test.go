// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/generated/clientset/versioned/fake"
	"github.com/kube-annex/annex/internal/heartbeat"
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
	engine.informer = newInformer(engine.options.Client, engine.client, &v1alpha1.Feature{}, "")
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

// reporter has a reporter of a version renew its Lease, which is good for 30 s.
func (o *observing) reporter(component, version string) {
	l := lease(component+"-"+version, "x", o.clock.Now())
	l.Annotations = map[string]string{featuregate.AnnotationComponent: component, featuregate.AnnotationVersion: version}
	o.reporterLeases.OnAdd(l, false)
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
	for _, use := range decide(f, o.input(f, &featureMemory{}, nil)).status.Uses {
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
	uses := []string{"gone v1 Enabled", "gone v1 Disabled", "here v1 Enabled", "exact v1+a Enabled", "restarts v1 Enabled"}
	o.sees("Reported", "", uses...)
	o.sees("Seen", v1alpha1.SourceObserved, uses...)
	minute := func(others ...string) {
		o.clock.Step(time.Minute)
		for _, other := range others {
			o.reporter(other, "v1")
		}
		o.reporter("here", "v1")
		o.reporter("gone", "v2")
		o.reporter("exact", "v1+a")
		o.updateUnsupportedUses()
	}
	minute()
	for i := range 59 {
		if i == 30 {
			minute("restarts")
		} else {
			minute()
		}
	}
	const all = "gone here exact restarts"
	if got := o.left("Reported"); got != all || len(o.queued()) > 0 {
		t.Errorf("after almost an hour: %s are left, want %s", got, all)
	}
	minute()
	if got, want := o.left("Reported"), "here exact restarts"; got != want {
		t.Errorf("after an hour: %s are left, want %s", got, want)
	}
	if got := o.left("Seen"); got != all {
		t.Errorf("an observed Feature: %s are left, want %s", got, all)
	}
	if got := o.queued(); !slices.Equal(got, []string{"Reported"}) {
		t.Errorf("to be looked at: %v, want the one Feature with uses that are over", got)
	}
	o.reporter("gone", "v1")
	if got := o.left("Reported"); got != all {
		t.Errorf("after one of them came back at the last moment: %s are left, want %s", got, all)
	}
	for range 30 {
		minute()
	}
	if got, want := o.left("Reported"), "here exact restarts"; got != want {
		t.Errorf("almost an hour after the last sign of another: %s are left, want %s", got, want)
	}
	minute()
	minute()
	if got, want := o.left("Reported"), "here exact"; got != want {
		t.Errorf("an hour after the last sign of another: %s are left, want %s", got, want)
	}
}

// TestCrowdedListsMakeRoom has a list that is nearly full, on which the uses of live reporters stay.
func TestCrowdedListsMakeRoom(t *testing.T) {
	t.Parallel()
	o := newObserving(t)
	var uses []string
	for i := range crowded - 1 {
		uses = append(uses, fmt.Sprintf("gone v%d Enabled", i))
	}
	o.sees("Crowded", "", append(uses, "here v1 Enabled")...)
	o.reporter("here", "v1")
	o.updateUnsupportedUses()
	if got, want := o.left("Crowded"), "gone here"; got != want {
		t.Errorf("at first: %s are left, want %s", got, want)
	}
	o.clock.Step(time.Minute)
	o.reporter("here", "v1")
	o.updateUnsupportedUses()
	if got, want := o.left("Crowded"), "here"; got != want {
		t.Errorf("after a minute: %s are left, want %s", got, want)
	}
	if got := o.queued(); !slices.Equal(got, []string{"Crowded"}) {
		t.Errorf("to be looked at: %v, want the crowded Feature", got)
	}
}

// TestReportersAreBelievedByWhatTheServerWritesAlone has Leases that reporters wrote themselves, as clients of former releases do, and
// those of other namespaces.
func TestReportersAreBelievedByWhatTheServerWritesAlone(t *testing.T) {
	t.Parallel()
	signOfLife := func(namespace, name string, labels ...string) *coordinationv1.Lease {
		l := lease(name, name, now)
		l.Namespace, l.Labels = namespace, map[string]string{}
		l.Annotations = map[string]string{featuregate.AnnotationComponent: "client", featuregate.AnnotationObserved: "99999999"}
		for i := 0; i < len(labels); i += 2 {
			l.Labels[labels[i]] = labels[i+1]
		}
		return l
	}
	kubernetes := kubernetesfake.NewClientset(
		signOfLife("ns", "forged", featuregate.LabelComponent, "client", featuregate.LabelNamespace, "ns"),
		signOfLife("ns", "former", featuregate.LabelComponent, "client"),
		signOfLife(featuregate.LeaseNamespace, "former", featuregate.LabelComponent, "client"),
		signOfLife(featuregate.LeaseNamespace, "elsewhere", featuregate.LabelComponent, "client", featuregate.LabelNamespace, "other"),
		signOfLife(featuregate.LeaseNamespace, "known", featuregate.LabelComponent, "client", featuregate.LabelNamespace, "ns"),
		signOfLife(featuregate.LeaseNamespace, "replica", announcerLabel, "server", featuregate.LabelNamespace, "ns"),
		signOfLife(featuregate.LeaseNamespace, "replica-elsewhere", announcerLabel, "server", featuregate.LabelNamespace, "other"),
		signOfLife("ns", "neighbour", announcerLabel, "neighbour"),
	)
	engine, err := New(Options{
		Component: "server", Instance: "a", Version: "v1.0.0", Namespace: "ns", Client: fake.NewSimpleClientset(), Leases: fakeLeases{kubernetes.CoordinationV1()},
	})
	if err != nil {
		t.Fatal(err)
	}
	engine.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer engine.queue.ShutDown()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	synced, err := engine.watch(ctx, &running, make(chan struct{}, 1))
	if err != nil {
		t.Fatal(err)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		t.Fatal("the informers did not sync")
	}
	names := func(l *heartbeat.Observer) []string {
		var out []string
		l.Live(func(lease *coordinationv1.Lease) { out = append(out, lease.Namespace+"/"+lease.Name) })
		slices.Sort(out)
		return out
	}
	if diff := cmp.Diff([]string{"annex-system/known"}, names(engine.reporterLeases)); diff != "" {
		t.Errorf("live reporters (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"annex-system/replica", "ns/neighbour"}, names(engine.replicaLeases)); diff != "" {
		t.Errorf("live replicas (-want,+got):\n%s", diff)
	}
}
