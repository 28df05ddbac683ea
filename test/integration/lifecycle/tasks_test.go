// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/featuregate/lifecycle"
)

// blocking notes its begin and its end by cancellation; with a closed gate it is done at once.
func (s *stage) blocking(name string, gate <-chan struct{}) lifecycle.Task {
	var tries atomic.Int32
	return lifecycle.Task{Name: name, DataChanging: true, Run: func(ctx context.Context, progress *lifecycle.Progress) error {
		s.note("%s-begins", name)
		progress.Done(int64(tries.Add(1)), 10)
		select {
		case <-gate:
			s.note("%s-done", name)
			return nil
		case <-ctx.Done():
			s.note("%s-canceled", name)
			return ctx.Err()
		}
	}}
}

// slow is foo with a sweep that lasts until its gate is closed.
func (s *stage) slow(value v1alpha1.Value, gate <-chan struct{}) lifecycle.Feature {
	f := s.foo(value, v1alpha1.SourceCommandLine)
	f.Dynamic = true
	f.Off = []lifecycle.Task{s.blocking("Sweep", gate)}
	return f
}

func (s *stage) waitForNote(want string) {
	s.t.Helper()
	s.wait("such that a task noted "+want, func(*v1alpha1.Feature) bool { return strings.Contains(s.notes(), want) })
}

// testLeaderIsKilled finds out which of two replicas works on the Feature by what that notes, and kills it.
func testLeaderIsKilled(s *stage) {
	open := make(chan struct{})
	replicas := map[string]*replica{}
	for _, name := range []string{"a", "b"} {
		f := s.slow(disabled, open)
		f.Off = []lifecycle.Task{s.blocking("Sweep-by-"+name, open)}
		f.Off[0].Name = "Sweep"
		replicas[name] = s.start(name, "v1.0.0", f)
	}
	s.waitForNote("-begins")
	leader, other := "a", "b"
	if strings.Contains(s.notes(), "Sweep-by-b-begins") {
		leader, other = "b", "a"
	}
	before := s.wait("marked as at work", func(f *v1alpha1.Feature) bool {
		return len(f.Status.Tasks) > 0 && f.Status.Tasks[0].State == v1alpha1.TaskRunning && f.Status.Tasks[0].Total != nil
	})
	replicas[leader].kill(s.t)
	s.waitForNote("Sweep-by-" + other + "-begins")
	after := s.wait("marked as tried again", func(f *v1alpha1.Feature) bool {
		return len(f.Status.Tasks) > 0 && f.Status.Tasks[0].Attempts == before.Status.Tasks[0].Attempts+1
	})
	if after.Status.State != v1alpha1.StateTurningOff {
		s.t.Errorf("after the kill: %+v", after.Status)
	}
	close(open)
	s.settles(v1alpha1.StateOff)
	if got := strings.Count(s.notes(), "-done"); got != 1 {
		s.t.Errorf("the sweep was done %d times: %s", got, s.notes())
	}
}

// testLeaderIsCutOff has a leader without the API stop by itself, and come back when the other one has settled the Feature.
func testLeaderIsCutOff(s *stage) {
	open := make(chan struct{})
	first := s.start("a", "v1.0.0", s.slow(disabled, nil))
	s.waitForNote("Sweep-begins")
	first.cut.Store(true)
	s.waitForNote("Sweep-canceled")
	s.start("b", "v1.0.0", s.slow(disabled, open))
	s.wait("taken over", func(*v1alpha1.Feature) bool { return strings.Count(s.notes(), "Sweep-begins") == 2 })
	first.cut.Store(false)
	close(open)
	s.settles(v1alpha1.StateOff)
}

func testTurnedRound(s *stage) {
	s.start("a", "v1.0.0", s.slow(enabled, nil))
	s.settles(v1alpha1.StateOn)
	s.desire(disabled)
	s.waitForNote("Sweep-begins")
	s.desire(enabled)
	f := s.settles(v1alpha1.StateOn)
	if f.Status.Source != v1alpha1.SourceDynamic || f.Status.ObservedGeneration != f.Generation || !f.Status.Dynamic {
		s.t.Errorf("turned round: %+v", f.Status)
	}
	if got, want := s.notes(), "Prepare@TurningOn Sweep-begins Sweep-canceled Prepare@TurningOn"; got != want {
		s.t.Errorf("tasks: got %q, want %q", got, want)
	}
}

func testAwaitingConfirmation(s *stage) {
	r := s.start("a", "v1.0.0", s.foo(enabled, v1alpha1.SourceDefault))
	s.settles(v1alpha1.StateOn)
	r.end(s.t)
	r = s.start("a", "v1.1.0", s.foo(disabled, v1alpha1.SourceDefault))
	awaiting := func(f *v1alpha1.Feature) bool {
		return f.Status.State == v1alpha1.StateTurningOff && len(f.Status.Tasks) == 1 && f.Status.Tasks[0].State == v1alpha1.TaskAwaitingConfirmation
	}
	s.wait("awaiting confirmation", awaiting)
	s.holdsFor(time.Second, awaiting)
	r.end(s.t)
	r = s.start("a", "v1.1.0", s.foo(disabled, v1alpha1.SourceDefault))
	s.holdsFor(2*time.Second, awaiting)
	if strings.Contains(s.notes(), "Sweep") {
		s.t.Fatalf("a sweep ran unconfirmed: %s", s.notes())
	}
	r.end(s.t)
	s.start("a", "v1.1.0", s.foo(disabled, v1alpha1.SourceCommandLine))
	s.settles(v1alpha1.StateOff)
	if !strings.HasSuffix(s.notes(), "Sweep@TurningOff") {
		s.t.Errorf("tasks after the confirmation: %s", s.notes())
	}
}

// testAnnouncedAnew deletes a Feature that is On by spec.desired, whose default is Off, while stored objects use it.
func testAnnouncedAnew(s *stage) {
	foo := s.counted(2, disabled, "")
	foo.Dynamic = true
	awaiting := func(f *v1alpha1.Feature) bool {
		return f.Status.State == v1alpha1.StateTurningOff && f.Status.Tasks[0].Name == "Sweep" && f.Status.Tasks[0].State == v1alpha1.TaskAwaitingConfirmation
	}
	r := s.start("a", "v1.0.0", foo)
	s.wait("awaiting confirmation when it is announced for the first time", awaiting)
	s.desire(enabled)
	on := s.settles(v1alpha1.StateOn)
	client := s.server.Annex.FeaturesV1alpha1().Features(s.namespace)
	if err := client.Delete(s.t.Context(), "Foo", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		s.t.Errorf("delete a Feature that is On: got %v, want 403", err)
	}
	r.end(s.t)
	meta.SetStatusCondition(&on.Status.Conditions, metav1.Condition{Type: v1alpha1.FeatureAvailable, Status: metav1.ConditionFalse, Reason: "Test"})
	if _, err := client.UpdateStatus(s.t.Context(), on, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	if err := client.Delete(s.t.Context(), "Foo", metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.start("a", "v1.0.0", foo)
	s.wait("awaiting confirmation when it is announced anew", func(f *v1alpha1.Feature) bool { return f.UID != on.UID && awaiting(f) })
	s.holdsFor(time.Second, awaiting)
	if strings.Contains(s.notes(), "Sweep") {
		s.t.Fatalf("a sweep ran unconfirmed: %s", s.notes())
	}
	s.desire(disabled)
	s.settles(v1alpha1.StateOff)
	if !strings.HasSuffix(s.notes(), "Sweep@TurningOff") {
		s.t.Errorf("tasks after the confirmation: %s", s.notes())
	}
}

// reporter makes the Lease of a process that reports, which is live for some seconds.
func (s *stage) reporter(name string, seconds int32) string {
	s.t.Helper()
	lease, err := s.server.Kubernetes.CoordinationV1().Leases(featuregate.LeaseNamespace).Create(s.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.namespace + "-" + name, Labels: map[string]string{featuregate.LabelComponent: "client", featuregate.LabelNamespace: s.namespace},
			Annotations: map[string]string{featuregate.AnnotationComponent: "client", featuregate.AnnotationVersion: "v1"},
		},
		Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: ptr.To(metav1.NowMicro()), HolderIdentity: &name},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return lease.Name
}

// answer has a reporter say that it has seen the Feature as it is.
func (s *stage) answer(lease string) {
	s.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"features.k8s.io/observed":%q}}}`, s.get().ResourceVersion)
	if _, err := s.server.Kubernetes.CoordinationV1().Leases(featuregate.LeaseNamespace).Patch(s.t.Context(), lease, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func waits(f *v1alpha1.Feature, message string) bool {
	return len(f.Status.Tasks) > 0 && f.Status.Tasks[0].Name == lifecycle.WaitForUses && strings.Contains(f.Status.Tasks[0].Message, message)
}

func testSilentReporter(s *stage) {
	talking, _ := s.reporter("talking", 600), s.reporter("silent", 6)
	s.start("a", "v1.0.0", s.foo(disabled, v1alpha1.SourceCommandLine))
	s.wait("waiting for both", func(f *v1alpha1.Feature) bool {
		return waits(f, "2 live reporters to answer") && waits(f, "client/silent, client/talking")
	})
	s.answer(talking)
	s.wait("waiting for one", func(f *v1alpha1.Feature) bool {
		return waits(f, "1 live reporters to answer") && waits(f, ": client/silent")
	})
	if s.notes() != "" {
		s.t.Errorf("tasks ran while a reporter was silent: %s", s.notes())
	}
	s.settles(v1alpha1.StateOff)
}

// report sends a report of the process client-0, which is its sign of life.
func (s *stage) report(observed string, features ...v1alpha1.ReportedFeature) {
	s.t.Helper()
	_, err := s.server.Annex.FeaturesV1alpha1().FeatureReports(s.namespace).Create(s.t.Context(), &v1alpha1.FeatureReport{Spec: v1alpha1.FeatureReportSpec{
		Component: "client", Version: "v1", Instance: "client-0", Observed: observed, Features: append([]v1alpha1.ReportedFeature{}, features...),
	}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

func foo(value v1alpha1.Value) v1alpha1.ReportedFeature {
	return v1alpha1.ReportedFeature{Name: "Foo", Value: value, Default: disabled}
}

func testDisagreeingComponent(s *stage) {
	s.report("")
	s.start("a", "v1.0.0", s.foo(disabled, v1alpha1.SourceCommandLine))
	s.wait("asking", func(f *v1alpha1.Feature) bool { return waits(f, "") && f.Status.UseEvaluationTime != nil })
	s.report("", foo(enabled))
	s.report(s.get().ResourceVersion)
	s.wait("asking again", func(f *v1alpha1.Feature) bool {
		return waits(f, "asked again, since 1 disagreed: client v1 (such as client-0) sees it as Enabled") && len(f.Status.Uses) == 0
	})
	s.report("", foo(disabled))
	s.report(s.get().ResourceVersion)
	f := s.settles(v1alpha1.StateOff)
	if len(f.Status.Uses) != 1 || f.Status.Uses[0].Value != disabled {
		s.t.Errorf("uses: %+v", f.Status.Uses)
	}
}

func testSettledDisagreement(s *stage) {
	s.start("a", "v1.0.0", s.foo(disabled, v1alpha1.SourceCommandLine))
	s.settles(v1alpha1.StateOff)
	s.report("", foo(enabled))
	s.wait("in conflict", func(f *v1alpha1.Feature) bool {
		c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FeatureConflict)
		return c.Status == metav1.ConditionTrue && c.Message == "client v1 (such as client-0) sees it as Enabled"
	})
	s.wait("out of conflict, as nobody disagreed again", func(f *v1alpha1.Feature) bool {
		return !isTrue(f, v1alpha1.FeatureConflict) && f.Status.UseEvaluationTime == nil
	})
}

func testRetriesAndProgress(s *stage) {
	var tries atomic.Int32
	f := s.foo(disabled, v1alpha1.SourceCommandLine)
	f.Off = []lifecycle.Task{{Name: "Sweep", DataChanging: true, Run: func(ctx context.Context, progress *lifecycle.Progress) error {
		switch tries.Add(1) {
		case 1:
			return errors.New("the first attempt fails")
		case 2:
			panic("the second attempt panics") //nolint:forbidigo // that is what is tested
		case 3:
			progress.Done(30, 100)
			progress.Say("a third is done")
			s.wait("a third done", func(f *v1alpha1.Feature) bool {
				task := f.Status.Tasks[0]
				return task.Done == 30 && *task.Total == 100 && task.Message == "a third is done" && task.Attempts == 3 && task.LastAttemptTime != nil
			})
			if err := progress.Confirm(ctx); err != nil {
				return fmt.Errorf("confirm: %w", err)
			}
		}
		return nil
	}}}
	s.start("a", "v1.0.0", f)
	for _, message := range []string{"the first attempt fails", "the second attempt panics"} {
		s.wait("failed", func(f *v1alpha1.Feature) bool {
			return len(f.Status.Tasks) > 0 && f.Status.Tasks[0].State == v1alpha1.TaskFailed && strings.Contains(f.Status.Tasks[0].Message, message)
		})
	}
	s.settles(v1alpha1.StateOff)
}

func testNoLongerKnown(s *stage) {
	r := s.start("a", "v1.0.0", s.counted(0, disabled, ""))
	s.settles(v1alpha1.StateOff)
	r.end(s.t)
	r = s.start("a", "v1.2.0")
	s.wait("not available", func(f *v1alpha1.Feature) bool {
		c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FeatureAvailable)
		return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "v1.0.0")
	})
	r.end(s.t)
	s.start("a", "v1.3.0")
	s.wait("removed", func(f *v1alpha1.Feature) bool { return f.UID == "" })
}

func testObservedAndDeleted(s *stage) {
	client := s.server.Annex.FeaturesV1alpha1().Features(s.namespace)
	observed, err := client.Create(s.t.Context(), &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "Observed"}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	observed.Status.Source, observed.Status.State = v1alpha1.SourceObserved, v1alpha1.StateOn
	if observed, err = client.UpdateStatus(s.t.Context(), observed, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.start("a", "v9.0.0", s.counted(0, disabled, ""), lifecycle.Feature{Name: "Observed", Default: disabled, Configured: disabled})
	before := s.settles(v1alpha1.StateOff)
	if err = client.Delete(s.t.Context(), "Foo", metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.wait("another", func(f *v1alpha1.Feature) bool {
		return f.UID != "" && f.UID != before.UID && f.Status.State == v1alpha1.StateOff
	})
	if now, err := client.Get(s.t.Context(), "Observed", metav1.GetOptions{}); err != nil || now.ResourceVersion != observed.ResourceVersion {
		s.t.Errorf("an observed Feature was written: %+v, %v", now, err)
	}
}

func testWaitingForRemoval(s *stage) {
	maps := s.server.Kubernetes.CoreV1().ConfigMaps(s.namespace)
	for i := range 3 {
		if _, err := maps.Create(s.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("user-", i)}}, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	count := lifecycle.CountObjects(lifecycle.Kind{
		Resource: schema.GroupResource{Resource: "configmaps"}, Client: s.server.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}),
		Uses: func(object *unstructured.Unstructured) bool {
			return object.GetNamespace() == s.namespace && strings.HasPrefix(object.GetName(), "user-")
		},
	})
	f := s.foo(disabled, v1alpha1.SourceCommandLine)
	f.Count, f.Off = count, []lifecycle.Task{lifecycle.WaitForRemoval(count, 100*time.Millisecond)}
	s.start("a", "v1.0.0", f)
	for left := 3; left > 0; left-- {
		got := s.wait("waiting for removal", func(f *v1alpha1.Feature) bool {
			d := f.Status.DanglingReferences
			return len(f.Status.Tasks) > 0 && f.Status.Tasks[0].Name == "WaitForRemoval" && d != nil && d.Count == int64(left) && isTrue(f, v1alpha1.FeatureDangling)
		})
		want := v1alpha1.ObjectReference{Resource: "configmaps", Namespace: s.namespace, Name: fmt.Sprint("user-", 3-left)}
		if got.Status.DanglingReferences.Examples[0] != want {
			s.t.Errorf("first example: got %+v, want %+v", got.Status.DanglingReferences.Examples[0], want)
		}
		if err := maps.Delete(s.t.Context(), want.Name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	if got := s.settles(v1alpha1.StateOff); got.Status.DanglingReferences.Count != 0 || isTrue(got, v1alpha1.FeatureDangling) {
		s.t.Errorf("after the removal: %+v", got.Status)
	}
}

func testClearingACollection(s *stage) {
	claims := s.server.Annex.MulticlusterV1alpha1().ClusterClaims()
	for i := range 3 {
		claim := &multiclusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("claim-", i)}, Spec: multiclusterv1alpha1.ClusterClaimSpec{Value: "x"}}
		if _, err := claims.Create(s.t.Context(), claim, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	client := s.server.Dynamic.Resource(multiclusterv1alpha1.SchemeGroupVersion.WithResource("clusterclaims"))
	clearing := func(allowed bool) lifecycle.Feature {
		f := s.foo(enabled, v1alpha1.SourceCommandLine)
		f.On = []lifecycle.Task{lifecycle.ClearCollection(client, allowed)}
		return f
	}
	r := s.start("a", "v1.0.0", clearing(false))
	s.wait("refused", func(f *v1alpha1.Feature) bool {
		return len(f.Status.Tasks) > 0 && f.Status.Tasks[0].State == v1alpha1.TaskFailed && strings.Contains(f.Status.Tasks[0].Message, "--allow-data-loss")
	})
	if _, err := claims.Get(s.t.Context(), "claim-0", metav1.GetOptions{}); err != nil {
		s.t.Errorf("without --allow-data-loss: %v", err)
	}
	r.end(s.t)
	s.start("a", "v1.0.0", clearing(true))
	s.settles(v1alpha1.StateOn)
	if _, err := claims.Get(s.t.Context(), "claim-0", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		s.t.Errorf("with --allow-data-loss: %v, want the claims gone", err)
	}
}
