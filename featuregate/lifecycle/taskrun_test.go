// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/util/workqueue"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned/fake"
)

// TestEndsOfAttempts ends attempts at a task in each way there is. The engine looks at the Feature again after each.
func TestEndsOfAttempts(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Canceled bool
		Error    string
	}
	for name, tc := range map[string]struct {
		run  func(ctx context.Context, progress *Progress) error
		end  bool
		want outcome
	}{
		"succeeds": {run: nothing},
		"fails":    {run: func(context.Context, *Progress) error { return errors.New("no") }, want: outcome{Error: "no"}},
		"panics": {
			run:  func(context.Context, *Progress) error { panic("broken") }, //nolint:forbidigo // what is tested
			want: outcome{Error: "panicked: broken"},
		},
		"is cancelled": {
			run: func(ctx context.Context, _ *Progress) error {
				<-ctx.Done()
				return ctx.Err()
			},
			end: true, want: outcome{Canceled: true, Error: "context canceled"},
		},
		"is cancelled and succeeds": {
			run: func(ctx context.Context, _ *Progress) error {
				<-ctx.Done()
				return nil
			},
			end: true, want: outcome{Canceled: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := New(Options{
				Component: "server", Instance: "a", Version: "v1.0.0", Namespace: "ns",
				Client: fake.NewSimpleClientset(), Leases: kubernetesfake.NewClientset().CoordinationV1(),
				Features: []Feature{{Name: "Foo", Default: off, Configured: on, On: []Task{{Name: "Prepare", Run: tc.run}}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			e.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
			defer e.queue.ShutDown()
			entry := &featureMemory{}
			e.startTask(t.Context(), attempted(feature("TurningOn", on, byFlag, "Prepare Running")), entry)
			if tc.end {
				e.cancelTask(entry)
			}
			e.taskRuns.Wait()
			view := entry.taskRun.state()
			got := outcome{Canceled: view.canceled}
			if view.err != nil {
				got.Error = view.err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || !view.ended {
				t.Errorf("ended: %t (-want,+got):\n%s", view.ended, diff)
			}
			if n := e.queue.Len(); n != 1 {
				t.Errorf("%d Features are queued, want that of the attempt", n)
			}
		})
	}
}

// TestEndOfAFeatureWithoutAnAttempt ends what a replica does about a Feature that it ceases to lead before it has begun anything.
func TestEndOfAFeatureWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	idle := &featureMemory{}
	(&Engine{}).cancelTask(idle)
	if idle.taskRun != nil {
		t.Errorf("there is an attempt %+v", idle.taskRun)
	}
}

func TestAttemptIsWantedWhileTheFeatureMarksIt(t *testing.T) {
	t.Parallel()
	marked := attempted(feature("TurningOn", on, byFlag, "Prepare Running", "Overwrite Pending")).Status
	for name, tc := range map[string]struct {
		change func(status *v1alpha1.FeatureStatus)
		want   bool
	}{
		"unchanged":          {func(*v1alpha1.FeatureStatus) {}, true},
		"another message":    {func(s *v1alpha1.FeatureStatus) { s.Tasks[0].Message = "half" }, true},
		"another state":      {func(s *v1alpha1.FeatureStatus) { s.State = "TurningOff" }, false},
		"no task":            {func(s *v1alpha1.FeatureStatus) { s.Tasks = nil }, false},
		"the next task":      {func(s *v1alpha1.FeatureStatus) { s.Tasks[0].Name = "Overwrite" }, false},
		"another attempt":    {func(s *v1alpha1.FeatureStatus) { s.Tasks[0].Attempts++ }, false},
		"another start time": {func(s *v1alpha1.FeatureStatus) { s.Tasks[0].LastAttemptTime = &metav1.Time{Time: now.Add(time.Second)} }, false},
		"not started":        {func(s *v1alpha1.FeatureStatus) { s.Tasks[0].LastAttemptTime = nil }, false},
	} {
		status := marked.DeepCopy()
		tc.change(status)
		if got := (&taskRun{marked: marked}).isMarkedIn(status); got != tc.want {
			t.Errorf("%s: the attempt is wanted: %t, want %t", name, got, tc.want)
		}
	}
}
