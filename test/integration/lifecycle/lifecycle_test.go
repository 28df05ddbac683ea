// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	enabled  = v1alpha1.ValueEnabled
	disabled = v1alpha1.ValueDisabled
)

// lifecycleTimings are as short as a busy machine allows.
var lifecycleTimings = lifecycle.Timings{
	LeaseDuration: 4 * time.Second, RenewInterval: 500 * time.Millisecond, AnswerWindow: 200 * time.Millisecond, WriteGrace: -1,
	RetryBase: 50 * time.Millisecond, RetryMax: time.Second, ProgressInterval: 100 * time.Millisecond, RecheckInterval: 2 * time.Second, Poll: 50 * time.Millisecond,
}

// stage is a namespace whose Features the engines of some replicas move.
type stage struct {
	t         *testing.T
	server    *framework.Server
	namespace string
	timings   lifecycle.Timings

	mu  sync.Mutex
	log []string
}

func newStage(t *testing.T, server *framework.Server) *stage {
	t.Helper()
	t.Parallel()
	created, err := server.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "lifecycle-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &stage{t: t, server: server, namespace: created.Name, timings: lifecycleTimings}
}

func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *stage) notes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, " ")
}

// task notes that it ran, and in which state of the Feature.
func (s *stage) task(name string, changesData bool) lifecycle.Task {
	return lifecycle.Task{Name: name, DataChanging: changesData, Run: func(context.Context, *lifecycle.Progress) error {
		s.note("%s@%s", name, s.get().Status.State)
		return nil
	}}
}

// foo is the feature of most of the tests.
func (s *stage) foo(value v1alpha1.Value, source v1alpha1.Source) lifecycle.Feature {
	return lifecycle.Feature{
		Name: "Foo", Default: disabled, Configured: value, Source: source, Stability: v1alpha1.StabilityBeta,
		On: []lifecycle.Task{s.task("Prepare", false)}, Off: []lifecycle.Task{s.task("Sweep", true)},
	}
}

// counted is foo where so many stored objects use it.
func (s *stage) counted(stored int64, value v1alpha1.Value, source v1alpha1.Source) lifecycle.Feature {
	f := s.foo(value, source)
	f.Count = func(context.Context) (v1alpha1.DanglingReferences, error) {
		return v1alpha1.DanglingReferences{Count: stored}, nil
	}
	return f
}

// replica is a running engine, which can be killed: from then on nothing of it reaches the API.
type replica struct {
	cut  atomic.Bool
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func (r *replica) RoundTripper(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if r.cut.Load() {
			return nil, errors.New("this replica was cut off")
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (s *stage) start(instance, version string, features ...lifecycle.Feature) *replica {
	s.t.Helper()
	r := &replica{done: make(chan struct{})}
	config := rest.CopyConfig(s.server.Config)
	config.Wrap(r.RoundTripper)
	client, err := versioned.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	leases, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	engine, err := lifecycle.New(lifecycle.Options{
		Component: "server", Instance: instance, Version: version, Namespace: s.namespace, Features: features,
		Client: client, Leases: leases.CoordinationV1(), Timings: s.timings,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.done)
		r.err = engine.Run(ctx)
	}()
	s.t.Cleanup(func() { r.end(s.t) })
	return r
}

func (r *replica) end(t *testing.T) {
	t.Helper()
	r.stop()
	select {
	case <-r.done:
	case <-time.After(30 * time.Second):
		t.Fatal("an engine did not end")
	}
	if r.err != nil {
		t.Errorf("an engine ended with %v", r.err)
	}
}

// kill ends a replica without anything of its end reaching the API.
func (r *replica) kill(t *testing.T) {
	t.Helper()
	r.cut.Store(true)
	r.end(t)
}

func (s *stage) get() *v1alpha1.Feature {
	// A task may ask when its test has ended.
	feature, err := s.server.Annex.FeaturesV1alpha1().Features(s.namespace).Get(context.Background(), "Foo", metav1.GetOptions{})
	if err != nil {
		return &v1alpha1.Feature{}
	}
	return feature
}

// wait waits until the Feature is as described.
func (s *stage) wait(what string, is func(f *v1alpha1.Feature) bool) (feature *v1alpha1.Feature) {
	s.t.Helper()
	poll.Eventually(s.t, time.Minute, "the Feature is "+what, func(context.Context) error {
		feature = s.get()
		return poll.Want(is(feature), fmt.Sprintf("%+v; tasks that ran: %s", feature.Status, s.notes()))
	})
	return feature
}

// settles waits for a state, with nothing left to do.
func (s *stage) settles(state v1alpha1.State) *v1alpha1.Feature {
	s.t.Helper()
	return s.wait("settled "+string(state), func(f *v1alpha1.Feature) bool { return f.Status.State == state && isTrue(f, v1alpha1.FeatureSettled) })
}

func isTrue(f *v1alpha1.Feature, condition string) bool {
	return meta.IsStatusConditionTrue(f.Status.Conditions, condition)
}

func (s *stage) desire(value v1alpha1.Value) {
	s.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"desired":%q}}`, value)
	if _, err := s.server.Annex.FeaturesV1alpha1().Features(s.namespace).Patch(s.t.Context(), "Foo", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// TestLifecycle moves Features of a real server with the engines of replicas in this process.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	server := framework.Start(t)
	for name, test := range map[string]func(s *stage){
		"on and off":             testOnAndOff,
		"replicas disagree":      testReplicasDisagree,
		"the leader is killed":   testLeaderIsKilled,
		"the leader is cut off":  testLeaderIsCutOff,
		"turned round":           testTurnedRound,
		"awaiting confirmation":  testAwaitingConfirmation,
		"announced anew":         testAnnouncedAnew,
		"silent reporter":        testSilentReporter,
		"disagreeing component":  testDisagreeingComponent,
		"gates that report":      testGatesThatReport,
		"settled disagreement":   testSettledDisagreement,
		"retries and progress":   testRetriesAndProgress,
		"no longer known":        testNoLongerKnown,
		"observed and deleted":   testObservedAndDeleted,
		"waiting for removal":    testWaitingForRemoval,
		"clearing a collection":  testClearingACollection,
		"one of three rolls off": testRollingOne,
		"uses that are over":     testUsesThatAreOver,
		"a list that is full":    testFullList,
	} {
		t.Run(name, func(t *testing.T) { test(newStage(t, server)) })
	}
}

func testOnAndOff(s *stage) {
	r := s.start("a", "v1.0.0", s.counted(0, disabled, ""))
	f := s.settles(v1alpha1.StateOff)
	if got := s.notes(); got != "" {
		s.t.Errorf("tasks of the first announcement: %q", got)
	}
	if f.Status.Version != "v1.0.0" || f.Status.Stability != v1alpha1.StabilityBeta || f.Status.Default != disabled || f.Status.Configured != disabled ||
		f.Status.Source != v1alpha1.SourceDefault || f.Status.ObservedGeneration != f.Generation || len(f.Status.Tasks) != 0 || f.Status.UseEvaluationTime != nil {
		s.t.Errorf("announced: %+v", f.Status)
	}
	if !isTrue(f, v1alpha1.FeatureAvailable) || !isTrue(f, v1alpha1.FeatureSafeToUpgrade) || isTrue(f, v1alpha1.FeatureConflict) {
		s.t.Errorf("conditions: %+v", f.Status.Conditions)
	}
	for i, value := range []v1alpha1.Value{enabled, disabled, enabled} {
		r.end(s.t)
		r = s.start("a", "v1.0.0", s.foo(value, v1alpha1.SourceCommandLine))
		if value == enabled {
			f = s.settles(v1alpha1.StateOn)
		} else {
			f = s.settles(v1alpha1.StateOff)
		}
		if f.Status.Configured != value || f.Status.Source != v1alpha1.SourceCommandLine {
			s.t.Errorf("round %d: %+v", i, f.Status)
		}
	}
	if got, want := s.notes(), "Prepare@TurningOn Sweep@TurningOff Prepare@TurningOn"; got != want {
		s.t.Errorf("tasks: got %q, want %q", got, want)
	}
	// Nothing is written any more.
	before := s.get().ResourceVersion
	s.holdsFor(time.Second, func(f *v1alpha1.Feature) bool { return f.ResourceVersion == before })
}

// holdsFor fails if the Feature is not as described at any time for a while.
func (s *stage) holdsFor(d time.Duration, is func(f *v1alpha1.Feature) bool) {
	s.t.Helper()
	end := time.After(d)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if f := s.get(); !is(f) {
			s.t.Fatalf("the Feature changed to %+v", f.Status)
		}
		select {
		case <-end:
			return
		case <-ticker.C:
		}
	}
}

func testReplicasDisagree(s *stage) {
	set := func(value v1alpha1.Value) lifecycle.Feature { return s.foo(value, v1alpha1.SourceCommandLine) }
	replicas := map[string]*replica{}
	for _, name := range []string{"a", "b", "c"} {
		replicas[name] = s.start(name, "v1.0.0", set(enabled))
	}
	s.settles(v1alpha1.StateOn)
	history := s.record()
	for i, name := range []string{"a", "b", "c"} {
		replicas[name].end(s.t)
		replicas[name] = s.start(name, "v1.0.0", set(disabled))
		if i == 2 {
			break
		}
		f := s.wait("in conflict", func(f *v1alpha1.Feature) bool {
			c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FeatureConflict)
			return c != nil && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "server-"+name+" (v1.0.0) wants Disabled") && strings.Contains(c.Message, "server-c (v1.0.0) wants Enabled")
		})
		if isTrue(f, v1alpha1.FeatureSettled) || isTrue(f, v1alpha1.FeatureSafeToUpgrade) {
			s.t.Errorf("conditions in conflict: %+v", f.Status.Conditions)
		}
		s.holdsFor(2*time.Second, func(f *v1alpha1.Feature) bool {
			return f.Status.State == v1alpha1.StateOn && f.Status.Configured == enabled && isTrue(f, v1alpha1.FeatureConflict)
		})
		if strings.Contains(s.notes(), "Sweep") {
			s.t.Fatalf("a sweep ran while replicas disagreed: %s", s.notes())
		}
	}
	f := s.settles(v1alpha1.StateOff)
	if isTrue(f, v1alpha1.FeatureConflict) || !strings.HasSuffix(s.notes(), "Prepare@TurningOn Sweep@TurningOff") {
		s.t.Errorf("after they agree: tasks %q, conditions %+v", s.notes(), f.Status.Conditions)
	}
	if diff := cmp.Diff([]string{"On", "TurningOff", "Off"}, history.states(f.ResourceVersion)); diff != "" {
		s.t.Errorf("states from beginning to end (-want,+got):\n%s", diff)
	}
}
