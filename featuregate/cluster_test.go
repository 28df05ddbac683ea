// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
)

func testReports(t *testing.T, w *world) {
	config, count := w.counted()
	gate := w.gate("one")
	if err := gate.Set("AllAlpha=false,Alpha=true"); err != nil {
		t.Fatal(err)
	}
	if gate.Enabled("AllAlpha") || !gate.Enabled("Alpha") || !gate.Enabled("Beta") || !gate.Enabled("Locked") {
		t.Fatal("a gate is not what it was set to")
	}
	gate.AddMetrics()
	w.run(gate, config)
	w.waitForUse("Alpha", featuresv1alpha1.ValueEnabled)
	w.waitForUse("Beta", featuresv1alpha1.ValueEnabled)
	w.waitForUse("Locked", featuresv1alpha1.ValueEnabled)
	w.leaseWith("one", featuregate.AnnotationObserved)

	list, err := w.server.Annex.FeaturesV1alpha1().Features(w.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, feature := range list.Items {
		status := feature.Status
		got[feature.Name] = fmt.Sprint(status.Default, " ", status.Stability, " ", status.Version, " ", len(status.Uses), " ", status.Uses[0].Reporter)
	}
	want := map[string]string{
		"Alpha": "Disabled Alpha v1.2.3+x 1 one", "Beta": "Enabled Beta v1.2.3+x 1 one", "Locked": "Enabled GA v1.2.3+x 1 one",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Features (-want,+got):\n%s", diff)
	}
	if got := count("POST featurereports"); got != 1 {
		t.Errorf("%d reports were sent, want one for all gates", got)
	}

	// Another process of the component finds all there.
	other := w.gate("two")
	if err := other.Set("Alpha=true"); err != nil {
		t.Fatal(err)
	}
	other.Enabled("Alpha")
	other.Enabled("Beta")
	otherConfig, otherCount := w.counted()
	w.run(other, otherConfig)
	w.leaseWith("two", featuregate.AnnotationObserved)
	if got := otherCount("POST featurereports"); got != 0 {
		t.Errorf("%d reports of uses that are listed, want none", got)
	}
	// A value that changes is a use of its own.
	if err := other.Set("Alpha=false"); err != nil {
		t.Fatal(err)
	}
	other.Enabled("Alpha")
	w.waitForUse("Alpha", featuresv1alpha1.ValueDisabled)
	// What is asked for later is reported later.
	other.Enabled("Unused")
	w.waitForUse("Unused", featuresv1alpha1.ValueEnabled)
	if got := otherCount("POST featurereports"); got < 1 || got > 2 {
		t.Errorf("%d reports of two uses, want one each at most", got)
	}
}

func testSignOfLife(t *testing.T, w *world) {
	fake := clocktesting.NewFakeClock(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))
	options := w.options("pod/one@node")
	options.Clock = fake
	gate := w.gateWith(options)
	config, count := w.counted()
	stop := w.run(gate, config)
	w.wait("the first sign of life", func() (bool, any) { lease := w.lease(options.Instance); return lease.Name != "", lease })
	first := w.lease(options.Instance)
	if observed, ok := first.Annotations[featuregate.AnnotationObserved]; ok {
		t.Errorf("the first sign of life says that %s was observed, before anything was", observed)
	}
	for got, want := range map[string]string{
		first.Labels[featuregate.LabelVersion]: "v1.2.3_x", first.Annotations[featuregate.AnnotationComponent]: "tested",
		first.Annotations[featuregate.AnnotationVersion]: "v1.2.3+x", fmt.Sprint(*first.Spec.LeaseDurationSeconds): "900",
	} {
		if got != want {
			t.Errorf("the Lease has %q, want %q:\n%v", got, want, first)
		}
	}

	// The first answer is due within 2 s.
	step := func() {
		if fake.HasWaiters() {
			fake.Step(500 * time.Millisecond)
		}
	}
	began := fake.Now()
	w.wait("what was observed", func() (bool, any) {
		step()
		lease := w.lease(options.Instance)
		return lease.Annotations[featuregate.AnnotationObserved] != "", lease
	})
	answered := fake.Now()
	if late := answered.Sub(began); late > 10*time.Second {
		t.Errorf("the first answer came after %s, want at most 2 s and what the request takes", late)
	}

	// Nothing happens for a while: the next is between 4:30 and 5:30 later.
	before := w.lease(options.Instance).Spec.RenewTime.Time
	fake.SetTime(answered.Add(4*time.Minute + 25*time.Second))
	sent := count(signOfLife)
	w.wait("the renewal", func() (bool, any) {
		step()
		lease := w.lease(options.Instance)
		return lease.Spec.RenewTime.After(before), lease
	})
	if after := fake.Now().Sub(answered); after < 265*time.Second || after > 335*time.Second {
		t.Errorf("the sign of life was renewed after %s, want about 5m", after)
	}
	if got := count(signOfLife) - sent; got != 1 {
		t.Errorf("%d reports for one renewal", got)
	}
	if got := count("POST leases") + count("PUT leases") + count("GET leases"); got != 0 {
		t.Errorf("the gate sent %d requests about Leases, on which it has no rights", got)
	}

	// A clean end is reported.
	stop()
	if lease := w.lease(options.Instance); lease.Name != "" {
		t.Errorf("the Lease is left after Run: %v", lease)
	}
}

func testFollows(t *testing.T, w *world) {
	told := make(chan bool, 100)
	gate := w.gate("one", featuregate.FromAPI("Alpha", func(_ context.Context, enabled bool) { told <- enabled }), featuregate.FromAPI("Locked"))
	if err := gate.Set("Alpha=true"); err != nil {
		t.Fatal(err)
	}
	if !gate.Enabled("Alpha") {
		t.Fatal("before the API was read, the command line decides")
	}
	w.set("Locked", func(s *featuresv1alpha1.FeatureStatus) { s.State = featuresv1alpha1.StateOff })
	w.run(gate, w.server.Config)
	// A Feature without a state says nothing.
	w.waitForUse("Alpha", featuresv1alpha1.ValueEnabled)
	w.leaseWith("one", featuregate.AnnotationObserved)
	if !gate.Enabled("Alpha") {
		t.Error("a Feature without a state changed the gate")
	}

	var took []time.Duration
	last := true
	for i, tc := range []struct {
		state featuresv1alpha1.State
		task  string
		want  bool
	}{
		{featuresv1alpha1.StateTurningOff, "WaitForUses", false},
		{featuresv1alpha1.StateTurningOn, "WaitForUses", true},
		{featuresv1alpha1.StateOff, "", false},
		{featuresv1alpha1.StateOn, "", true},
		{featuresv1alpha1.StateTurningOn, "InstallCRD", false},
		{featuresv1alpha1.StateOn, "", true},
	} {
		w.set("Alpha", func(s *featuresv1alpha1.FeatureStatus) {
			s.State, s.Tasks = tc.state, nil
			if tc.task != "" {
				s.Tasks = []featuresv1alpha1.Task{{Name: tc.task, State: featuresv1alpha1.TaskRunning}}
			}
		})
		began := time.Now()
		w.wait(fmt.Sprintf("step %d", i), func() (bool, any) { return gate.Enabled("Alpha") == tc.want, !tc.want })
		took = append(took, time.Since(began))
		if tc.want == last {
			t.Fatalf("step %d changes nothing", i)
		}
		last = tc.want
		select {
		case value := <-told:
			if value != tc.want {
				t.Errorf("step %d: the program was told %t", i, value)
			}
		case <-time.After(patience):
			t.Fatalf("step %d: the program was not told", i)
		}
	}
	t.Logf("changes were followed after %v", took)
	if !gate.Enabled("Locked") {
		t.Error("a locked gate followed its Feature")
	}

	// The new value is reported although nobody asks the gate, and a deleted Feature leaves the gate as it was.
	w.set("Alpha", func(s *featuresv1alpha1.FeatureStatus) { s.State = featuresv1alpha1.StateOff })
	w.waitForUse("Alpha", featuresv1alpha1.ValueDisabled)
	if err := w.server.Annex.FeaturesV1alpha1().Features(w.namespace).Delete(t.Context(), "Alpha", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	w.set("Alpha", func(s *featuresv1alpha1.FeatureStatus) {
		s.UseEvaluationTime = &metav1.Time{Time: time.Now().Add(5 * time.Second)}
	})
	w.waitForUse("Alpha", featuresv1alpha1.ValueDisabled)
	if gate.Enabled("Alpha") {
		t.Error("when its Feature was deleted the gate went back to the command line")
	}
}

// network is a way to the server that can be cut.
type network struct {
	mu    sync.Mutex
	away  bool
	conns []net.Conn
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil && n.away {
		_ = conn.Close()
		return nil, errors.New("the API is away")
	}
	n.conns = append(n.conns, conn)
	return conn, err
}

func (n *network) set(away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = away
	if !away {
		return
	}
	for _, conn := range n.conns {
		_ = conn.Close()
	}
	n.conns = nil
}

func testAway(t *testing.T, w *world) {
	way := &network{}
	way.set(true)
	config := rest.CopyConfig(w.server.Config)
	config.Dial = way.dial
	gate := w.gate("one", featuregate.FromAPI("Alpha"))
	stop := w.run(gate, config)
	for range 1000 {
		if gate.Enabled("Alpha") || !gate.Enabled("Beta") {
			t.Fatal("without the API a gate is not what the command line says")
		}
	}
	if lease := w.lease("one"); lease.Name != "" {
		t.Fatalf("there is a sign of life without a way to the API: %v", lease)
	}
	way.set(false)
	w.waitForUse("Beta", featuresv1alpha1.ValueEnabled)
	w.set("Alpha", func(s *featuresv1alpha1.FeatureStatus) { s.State = featuresv1alpha1.StateOn })
	w.wait("the state", func() (bool, any) { return gate.Enabled("Alpha"), nil })
	w.leaseWith("one", featuregate.AnnotationObserved)

	way.set(true)
	w.set("Alpha", func(s *featuresv1alpha1.FeatureStatus) { s.State = featuresv1alpha1.StateOff })
	gate.Enabled("Unused")
	for range 1000 {
		if !gate.Enabled("Alpha") {
			t.Fatal("without the API a gate changed")
		}
	}
	way.set(false)
	w.waitForUse("Unused", featuresv1alpha1.ValueEnabled)
	w.wait("the state", func() (bool, any) { return !gate.Enabled("Alpha"), nil })

	// It ends without the API as well; the Lease is then left to expire.
	way.set(true)
	stop()
}
