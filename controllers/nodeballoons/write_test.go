// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

// api answers resizes of its pod with what is set, and counts them. It keeps the last status that was written.
type api struct {
	mu      sync.Mutex
	refusal *apierrors.StatusError
	pod     *corev1.Pod
	resizes int
	status  v1alpha1.NodeBalloonStatus
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/resize"):
		var patch metav1.PartialObjectMetadata
		_ = json.NewDecoder(r.Body).Decode(&patch)
		if a.pod != nil && patch.UID != "" && patch.UID != a.pod.UID {
			w.WriteHeader(http.StatusConflict) // as kube-apiserver answers a patch of the uid
			return
		}
		a.resizes++
		if a.refusal != nil {
			w.WriteHeader(int(a.refusal.ErrStatus.Code))
			_ = json.NewEncoder(w).Encode(a.refusal.ErrStatus)
			return
		}
		_ = json.NewEncoder(w).Encode(a.pod)
	case strings.HasSuffix(r.URL.Path, "/status"):
		var balloon v1alpha1.NodeBalloon
		_ = json.NewDecoder(r.Body).Decode(&balloon)
		a.status = balloon.Status
		_ = json.NewEncoder(w).Encode(balloon)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func testController(t *testing.T, a *api) *Controller {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	c, err := New(Options{Host: &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, Mode: On})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// lookAfter has the controller look at the node so many seconds after the start, and returns when it will look again.
func lookAfter(t *testing.T, c *Controller, v *view, seconds int) time.Duration {
	t.Helper()
	v.now, v.memory = start.Add(time.Duration(seconds)*time.Second), c.memories[v.name]
	decided, err := c.decide(t.Context(), *v)
	if err != nil {
		t.Fatal(err)
	}
	after, err := c.do(t.Context(), *v, decided)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

// TestRefusedResizesAreTriedOnceAMinute looks at a node each ten seconds, as if something happened to it all the time.
func TestRefusedResizesAreTriedOnceAMinute(t *testing.T) {
	t.Parallel()
	a := &api{refusal: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "balloon-1", errors.New("by a test"))}
	a.refusal.ErrStatus.APIVersion, a.refusal.ErrStatus.Kind = "v1", "Status"
	c := testController(t, a)
	v := view{name: "n", node: testNode(), balloon: testBalloon(v1alpha1.NodeBalloonSpec{BalloonSize: size{2000, gi}.list()}), pod: testPod(floor(), floor())}
	for second := 0; second <= 120; second += 10 {
		after := lookAfter(t, c, &v, second)
		if left := retryRefused - time.Duration(second%60)*time.Second; after != left {
			t.Errorf("after %d seconds it looks again in %s, want %s", second, after, left)
		}
		if a.resizes != 1+second/60 {
			t.Errorf("after %d seconds there were %d attempts", second, a.resizes)
		}
		v.balloon.Status = a.status
		settled := meta.FindStatusCondition(a.status.Conditions, v1alpha1.NodeBalloonSettled)
		if settled == nil || settled.Reason != v1alpha1.ReasonInfeasible || !strings.Contains(settled.Message, "by a test") {
			t.Fatalf("after %d seconds the condition is %+v", second, settled)
		}
	}
	if n := len(c.events.waiting); n != 2 {
		t.Errorf("there are %d events, want one on the node and one on the NodeBalloon", n)
	}
}

// TestRefusalsByWhatTheNodeWasAreTriedSoon has kube-apiserver judge by what a node was before it became larger.
func TestRefusalsByWhatTheNodeWasAreTriedSoon(t *testing.T) {
	t.Parallel()
	a := &api{refusal: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "balloon-1", errors.New("by a test"))}
	a.refusal.ErrStatus.APIVersion, a.refusal.ErrStatus.Kind = "v1", "Status"
	c := testController(t, a)
	v := view{name: "n", node: testNode(), balloon: testBalloon(v1alpha1.NodeBalloonSpec{BalloonSize: size{2000, gi}.list()}), pod: testPod(floor(), floor())}
	v.balloon.Status.NodeUID, v.balloon.Status.Allocatable = v.node.UID, size{1000, gi}.list()
	var attempts []int
	for second := 0; second <= 80; second++ {
		before := a.resizes
		after := lookAfter(t, c, &v, second)
		if a.resizes > before {
			attempts = append(attempts, second)
			if want := map[bool]time.Duration{true: retryUnseen, false: retryRefused}[second < 10]; after != want {
				t.Errorf("after %d seconds it looks again in %s, want %s", second, after, want)
			}
		}
		v.balloon.Status = a.status
	}
	if diff := cmp.Diff([]int{0, 2, 4, 6, 8, 10, 70}, attempts); diff != "" {
		t.Errorf("seconds with attempts (-want,+got):\n%s", diff)
	}
}

// TestAPodThatReplacedTheBalloonPodIsNotResized has the balloon pod replaced by one of its name before the controller learns of that.
func TestAPodThatReplacedTheBalloonPodIsNotResized(t *testing.T) {
	t.Parallel()
	a := &api{pod: testPod(floor(), floor(), func(p *corev1.Pod) { p.UID = "pod-2" })}
	c := testController(t, a)
	v := view{name: "n", now: start, node: testNode(), balloon: testBalloon(v1alpha1.NodeBalloonSpec{BalloonSize: size{2000, gi}.list()}), pod: testPod(floor(), floor())}
	if _, err := c.do(t.Context(), v, next(v)); !apierrors.IsConflict(err) {
		t.Errorf("the resize ended with %v, want a conflict", err)
	}
	if a.resizes != 0 {
		t.Error("the pod that replaced the balloon pod was resized")
	}
}

// TestOldPodsAreNotJudged waits for what the controller has done to be seen, rather than doing it again.
func TestOldPodsAreNotJudged(t *testing.T) {
	t.Parallel()
	want := size{2000, gi}
	resized := testPod(want, floor())
	resized.Generation = 3
	a := &api{pod: resized}
	c := testController(t, a)
	v := view{name: "n", now: start, node: testNode(), balloon: testBalloon(v1alpha1.NodeBalloonSpec{BalloonSize: want.list()}), pod: testPod(floor(), floor())}
	if _, err := c.do(t.Context(), v, next(v)); err != nil {
		t.Fatal(err)
	}
	if m := c.memories["n"]; !m.ahead(v.pod) || m.ahead(resized) {
		t.Errorf("what is remembered, %+v, does not tell the pod before from the one after", m)
	}
	// Another wish does not make the old pod any newer; another pod is another matter.
	if m := c.memories["n"].about("pod-1", floor()); !m.ahead(v.pod) {
		t.Error("with another wish the old pod counts")
	}
	if m := c.memories["n"].about("pod-2", want); m.ahead(v.pod) {
		t.Error("another pod is compared with the one before")
	}
	if (memory{generation: 3}).ahead(nil) || (memory{pod: "pod-2", generation: 3}).ahead(testPod(want, want)) {
		t.Error("a pod that is not the remembered one is waited for")
	}
}
