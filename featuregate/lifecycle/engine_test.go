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
	engine.startTask(t.Context(), f, &featureMemory{})
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
	engine.taskRuns.Wait()
}

func TestDefaultsOfOptions(t *testing.T) {
	t.Parallel()
	want := Timings{
		LeaseDuration: 30 * time.Second, RenewInterval: 10 * time.Second, AnswerWindow: time.Minute, WriteGrace: 70 * time.Second, RetryBase: time.Second,
		RetryMax: 5 * time.Minute, ProgressInterval: time.Second, RecheckInterval: 5 * time.Minute, UseRetention: time.Hour, Poll: time.Second,
	}
	if got := (Timings{}).withDefaults(); got != want {
		t.Errorf("the timings are %+v, want %+v", got, want)
	}
	for set, want := range map[int]int{0: DefaultRetention, 5: 5, -1: -1} {
		o := goodOptions()
		o.Retention = set
		if err := o.complete(); err != nil || o.Retention != want {
			t.Errorf("retention %d becomes %d, %v", set, o.Retention, err)
		}
	}
}

func goodOptions() Options {
	return Options{
		Component: "server", Instance: "a", Version: "v1.0.0", Namespace: "ns",
		Client: fake.NewSimpleClientset(), Leases: kubernetesfake.NewClientset().CoordinationV1(),
	}
}

func TestEachBadOptionIsReported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Options)
		errors int
	}{
		"none":                         {func(*Options) {}, 0},
		"no component":                 {func(o *Options) { o.Component = "" }, 2}, // its Lease has no name either
		"no instance":                  {func(o *Options) { o.Instance = "" }, 1},
		"no client":                    {func(o *Options) { o.Client = nil }, 1},
		"no Leases":                    {func(o *Options) { o.Leases = nil }, 1},
		"Leases in annex-system":       {func(o *Options) { o.LeaseNamespace = "annex-system" }, 0},
		"Leases in another namespace":  {func(o *Options) { o.LeaseNamespace = "other" }, 1},
		"renewed twice in a duration":  {func(o *Options) { o.Timings.RenewInterval = 15 * time.Second }, 0},
		"renewed less often than that": {func(o *Options) { o.Timings.RenewInterval = 15*time.Second + 1 }, 1},
	} {
		o := goodOptions()
		o.LeaseNamespace = "ns"
		tc.change(&o)
		if errs := o.Validate(); len(errs) != tc.errors {
			t.Errorf("%s: %d errors, want %d: %v", name, len(errs), tc.errors, errs)
		}
	}
}

// TestWhatAReplicaAnnounces reads what it writes.
func TestWhatAReplicaAnnounces(t *testing.T) {
	t.Parallel()
	o := goodOptions()
	o.Features = []Feature{
		{Name: "Plain", Default: off, Configured: off},
		{Name: "Set", Default: off, Configured: on, Source: byFlag, Version: "v7.0.0", Dynamic: true},
	}
	text, err := announce(&o)
	if err != nil {
		t.Fatal(err)
	}
	l := lease("server-a-lifecycle", "me", now)
	l.Labels, l.Annotations = map[string]string{announcerLabel: "server"}, map[string]string{announcedAnnotation: text}
	got := replicaOf(l)
	want := replica{name: l.Name, holder: "me", component: "server", version: "v1.0.0", features: map[string]announcement{
		"Plain": {Value: off, Source: byDefault, Default: off, Version: "v1.0.0"},
		"Set":   {Value: on, Source: byFlag, Default: off, Version: "v7.0.0", Dynamic: true},
	}}
	if !got.equal(want) {
		t.Errorf("announced is %+v, want %+v", got, want)
	}
	for field, change := range map[string]func(*replica){
		"name": func(r *replica) { r.name = "x" }, "holder": func(r *replica) { r.holder = "x" }, "component": func(r *replica) { r.component = "x" },
		"version": func(r *replica) { r.version = "x" }, "features": func(r *replica) { r.features = nil },
	} {
		other := want
		if change(&other); want.equal(other) {
			t.Errorf("a replica with another %s is the same", field)
		}
	}
}
