// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLeases tells informers that they are not real, as the clientset does that they come from.
type fakeLeases struct {
	coordinationclient.LeasesGetter
}

func (fakeLeases) IsWatchListSemanticsUnSupported() bool { return true }

// TestRunEndsItsWork ends an engine in the middle of a task. What the API does is tested against a real one, in test/integration.
func TestRunEndsItsWork(t *testing.T) {
	t.Parallel()
	annex, kubernetes := fake.NewSimpleClientset(), kubernetesfake.NewClientset()
	running, ended := make(chan struct{}), false
	engine, err := New(Options{
		Component: "server", Instance: "a", Version: "v1.0.0", Namespace: "ns", Client: annex, Leases: fakeLeases{kubernetes.CoordinationV1()},
		Features: []Feature{{Name: "Foo", Default: off, Configured: on, On: []Task{{Name: "Block", Run: func(ctx context.Context, _ *Progress) error {
			close(running)
			<-ctx.Done()
			ended = true
			return ctx.Err()
		}}}}},
		Timings: Timings{Poll: 10 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	select {
	case <-running:
	case <-time.After(30 * time.Second):
		f, err := annex.FeaturesV1alpha1().Features("ns").Get(t.Context(), "Foo", metav1.GetOptions{})
		t.Fatalf("the task did not begin; the Feature is %+v, %v", f, err)
	}
	if _, err := kubernetes.CoordinationV1().Leases("ns").Get(t.Context(), "server-a-lifecycle", metav1.GetOptions{}); err != nil {
		t.Errorf("the Lease of a replica that runs: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run returned %v", err)
	}
	if !ended {
		t.Error("Run returned before the task had")
	}
	if _, err := kubernetes.CoordinationV1().Leases("ns").Get(t.Context(), "server-a-lifecycle", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease of a replica that has ended: %v, want it gone", err)
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	_, err := New(Options{
		Component: "Server", Instance: "a b", Version: "new", Namespace: "",
		Features: []Feature{
			{Name: "Foo", Default: off, Configured: "Maybe", Source: v1alpha1.SourceObserved},
			{Name: "Foo", Default: off, Configured: on, Version: "old", Off: []Task{{Name: WaitForUses, Run: nothing}, {Name: "Sweep"}}},
		},
		Timings: Timings{RenewInterval: time.Minute},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Server-a b-lifecycle", "option Version", "option Namespace", `Configured is "Maybe"`, "Source is", "listed twice", "version of feature Foo",
		`task "WaitForUses"`, `task "Sweep"`, "Client and Leases", "RenewInterval",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q: %v", want, err)
		}
	}
}

// TestConfirmRefusesWhatWasTakenOver has another replica claim the task while this one works on it.
func TestConfirmRefusesWhatWasTakenOver(t *testing.T) {
	t.Parallel()
	f := attempted(feature("TurningOn", on, byFlag, "Overwrite Running"))
	f.UID = "1"
	client := fake.NewSimpleClientset(f.DeepCopy())
	began, taken, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	engine, err := New(Options{
		Component: "server", Instance: "a", Version: "v1.0.0", Namespace: "ns", Client: client, Leases: kubernetesfake.NewClientset().CoordinationV1(),
		Features: []Feature{{Name: "Foo", Default: off, Configured: on, On: []Task{{Name: "Overwrite", DataChanging: true, Run: func(ctx context.Context, progress *Progress) error {
			if err := progress.Confirm(ctx); err != nil {
				t.Errorf("before anybody took over: %v", err)
			}
			close(began)
			<-taken
			err := progress.Confirm(ctx)
			if ctx.Err() == nil {
				t.Error("the context of an attempt that was taken over goes on")
			}
			result <- err
			return err
		}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	engine.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer engine.queue.ShutDown()
	engine.start(t.Context(), f, &entry{})
	<-began
	other := f.DeepCopy()
	other.Status.Tasks[0].Attempts++
	if _, err := client.FeaturesV1alpha1().Features("ns").UpdateStatus(t.Context(), other, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	close(taken)
	if err := <-result; err == nil {
		t.Error("an attempt that was taken over is confirmed")
	}
	engine.attempts.Wait()
}
