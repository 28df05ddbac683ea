// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
	annexinformers "github.com/kube-annex/annex/generated/informers/externalversions"
)

// recorder records requests and answers them with the code for their method and path, 200 if there is none.
type recorder struct {
	mu       sync.Mutex
	codes    map[string]int
	pods     []corev1.Pod
	requests []string
	bodies   map[string]string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	what := request.Method + " " + request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, what)
	r.bodies[what] = string(body)
	w.Header().Set("Content-Type", "application/json")
	if code := r.codes[what]; code != 0 {
		w.WriteHeader(code)
		return
	}
	switch what {
	case "GET pods":
		_ = json.NewEncoder(w).Encode(corev1.PodList{Items: r.pods})
	case "PUT status":
		_, _ = w.Write(body)
	default:
		_, _ = w.Write([]byte("{}"))
	}
}

// controllerOf returns a controller whose caches have the objects.
func controllerOf(t *testing.T, r *recorder, mode Mode, objects ...any) *Controller {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.bodies = map[string]string{}
	c, err := New(Options{
		Host: &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		Mode: mode, StartupTaint: "example.com/starting:NoSchedule", Clock: testingclock.NewFakeClock(start),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	t.Cleanup(c.queue.ShutDown)
	host, ours := informers.NewSharedInformerFactory(c.client, 0), annexinformers.NewSharedInformerFactory(c.annex, 0)
	c.nodes, c.pods, c.balloons = host.Core().V1().Nodes().Informer(), host.Core().V1().Pods().Informer(), ours.Node().V1alpha1().NodeBalloons().Informer()
	if err := c.watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		store := c.balloons.GetStore()
		switch obj.(type) {
		case *corev1.Node:
			store = c.nodes.GetStore()
		case *corev1.Pod:
			store = c.pods.GetStore()
		}
		if err := store.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestWhatReconcileChanges(t *testing.T) {
	t.Parallel()
	want := size{2000, 4 * gi}
	two := v1alpha1.NodeBalloonSpec{BalloonSize: want.list()}
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoExecute}, {Key: "example.com/starting", Effect: corev1.TaintEffectNoSchedule}}
	}
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	const resize, status, node, remove, list = "PATCH resize", "PUT status", "PATCH n", "DELETE balloon-1", "GET pods"
	for name, tc := range map[string]struct {
		mode    Mode
		objects []any
		memory  memory
		codes   map[string]int
		want    []string
		fails   bool
	}{
		"grows":                            {On, []any{testNode(), testBalloon(two), testPod(floor(), floor())}, memory{}, nil, []string{resize, status}, false},
		"removed":                          {Remove, []any{testNode(), testPod(want, want)}, memory{}, nil, []string{resize}, false},
		"no NodeBalloon":                   {On, []any{testNode(), testPod(floor(), floor())}, memory{}, nil, nil, false},
		"nothing":                          {On, nil, memory{}, nil, nil, false},
		"resized, which is not seen yet":   {On, []any{testNode(), testBalloon(two), testPod(floor(), floor())}, memory{pod: "pod-1", generation: 3}, nil, nil, false},
		"granted, so the taint goes":       {On, []any{testNode(tainted), testBalloon(two), testPod(want, want)}, memory{}, nil, []string{node, status}, false},
		"the taint cannot be written":      {On, []any{testNode(tainted), testBalloon(two), testPod(want, want)}, memory{}, map[string]int{node: 500}, []string{node}, true},
		"no pod, so the taint comes":       {On, []any{testNode(), testBalloon(two)}, memory{}, nil, []string{node, status}, false},
		"failed":                           {On, []any{testNode(), testPod(want, want, failed)}, memory{}, nil, []string{remove}, false},
		"failed, and gone":                 {On, []any{testNode(), testBalloon(v1alpha1.NodeBalloonSpec{}), testPod(want, want, failed)}, memory{}, map[string]int{remove: 404}, []string{remove, status}, false},
		"failed, and replaced":             {On, []any{testNode(), testBalloon(v1alpha1.NodeBalloonSpec{}), testPod(want, want, failed)}, memory{}, map[string]int{remove: 409}, []string{remove, status}, false},
		"failed, and cannot be deleted":    {On, []any{testNode(), testBalloon(v1alpha1.NodeBalloonSpec{}), testPod(want, want, failed)}, memory{}, map[string]int{remove: 403}, []string{remove}, true},
		"displaced":                        {On, []any{testNode(tainted), testBalloon(two, held(size{}, v1alpha1.ReasonDisplaced)), testPod(floor(), floor())}, memory{}, nil, []string{list, resize, status}, false},
		"displaced, and pods not readable": {On, []any{testNode(tainted), testBalloon(two, held(size{}, v1alpha1.ReasonDisplaced)), testPod(floor(), floor())}, memory{}, map[string]int{list: 403}, []string{list}, true},
		"the NodeBalloon is gone":          {On, []any{testNode(), testBalloon(two), testPod(floor(), floor())}, memory{}, map[string]int{status: 404}, []string{resize, status}, false},
		"the NodeBalloon has changed":      {On, []any{testNode(), testBalloon(two), testPod(floor(), floor())}, memory{}, map[string]int{status: 409}, []string{resize, status}, false},
		"the status cannot be written":     {On, []any{testNode(), testBalloon(two), testPod(floor(), floor())}, memory{}, map[string]int{status: 403}, []string{resize, status}, true},
		"a smaller size after a refusal":   {On, []any{testNode(), testBalloon(two), testPod(size{1000, gi}, floor())}, memory{}, map[string]int{resize: 403}, []string{resize, resize, status}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{codes: tc.codes}
			c := controllerOf(t, r, tc.mode, tc.objects...)
			if tc.memory != (memory{}) {
				c.memories["n"] = tc.memory
			}
			if _, err := c.reconcile(t.Context(), "n"); (err != nil) != tc.fails {
				t.Errorf("the error is %v, want one %t", err, tc.fails)
			}
			if diff := cmp.Diff(tc.want, r.requests); diff != "" {
				t.Errorf("requests (-want,+got):\n%s", diff)
			}
			for _, what := range []string{resize, node, remove} {
				if body, ok := r.bodies[what]; ok && !strings.Contains(body, `"uid":"`) {
					t.Errorf("%s names no uid: %s", what, body)
				}
			}
			if body, ok := r.bodies[node]; ok && strings.Contains(body, "other") != (len(tc.objects[0].(*corev1.Node).Spec.Taints) > 0) {
				t.Errorf("the taint of another changed: %s", body)
			}
		})
	}
}

// TestOtherPodsCount has pods that count on a node, and pods that do not.
func TestOtherPodsCount(t *testing.T) {
	t.Parallel()
	pod := func(namespace string, labels map[string]string, phase corev1.PodPhase) corev1.Pod {
		p := *testPod(size{100, 1000}, size{100, 1000})
		p.Namespace, p.Labels, p.Status.Phase = namespace, labels, phase
		return p
	}
	for name, tc := range map[string]struct {
		pod  corev1.Pod
		want size
	}{
		"pod":                                  {pod("default", nil, corev1.PodRunning), size{100, 1000}},
		"pod of the namespace of balloons":     {pod(Namespace, nil, corev1.PodRunning), size{100, 1000}},
		"labelled pod of another namespace":    {pod("default", labels(), corev1.PodRunning), size{100, 1000}},
		"pod whose label has another value":    {pod(Namespace, map[string]string{Label: "false"}, corev1.PodRunning), size{100, 1000}},
		"balloon":                              {pod(Namespace, labels(), corev1.PodRunning), size{}},
		"pod that has ended":                   {pod("default", nil, corev1.PodSucceeded), size{}},
		"pod of the namespace that has failed": {pod(Namespace, nil, corev1.PodFailed), size{}},
	} {
		r := &recorder{pods: []corev1.Pod{tc.pod}}
		got, err := controllerOf(t, r, On).others(t.Context(), "n")
		if err != nil || *got != tc.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tc.want)
		}
	}
}

// TestTheLastTaintIsRemovedFromTheList keeps the list of taints a list: null would be no change for some servers.
func TestTheLastTaintIsRemovedFromTheList(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	node := testNode()
	if err := controllerOf(t, r, On).setTaint(t.Context(), node, false); err != nil {
		t.Fatal(err)
	}
	if body := r.bodies["PATCH n"]; !strings.Contains(body, `"taints":[]`) {
		t.Errorf("the patch is %s", body)
	}
}

// TestBalloonPodsAreFoundByTheirNode views a node with a pod, one that is being deleted, and one on another node.
func TestBalloonPodsAreFoundByTheirNode(t *testing.T) {
	t.Parallel()
	dying := testPod(floor(), floor(), func(p *corev1.Pod) { p.Name, p.DeletionTimestamp = "balloon-0", &metav1.Time{Time: start} })
	elsewhere := testPod(floor(), floor(), func(p *corev1.Pod) { p.Name, p.Spec.NodeName = "balloon-2", "other" })
	c := controllerOf(t, &recorder{}, On, testNode(), dying, testPod(floor(), floor()), elsewhere)
	c.memories["n"] = memory{pod: "pod-1"}
	v, err := c.view("n")
	if err != nil {
		t.Fatal(err)
	}
	if v.removing || !v.now.Equal(start) || v.node == nil || v.balloon != nil || nameOf(v.pod) != "balloon-1" || nameOf(v.dying) != "balloon-0" || v.memory.pod != "pod-1" {
		t.Errorf("the view is %+v", v)
	}
}

// TestASmallerSizeIsAskedForAfterARefusal remembers the refusal also where the smaller size is granted.
func TestASmallerSizeIsAskedForAfterARefusal(t *testing.T) {
	t.Parallel()
	want := size{2000, 4 * gi}
	r := &refusing{larger: 1000}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	c, err := New(Options{Host: &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, Mode: On})
	if err != nil {
		t.Fatal(err)
	}
	v := view{name: "n", now: start, node: testNode(), balloon: testBalloon(v1alpha1.NodeBalloonSpec{BalloonSize: want.list()}), pod: testPod(size{1000, gi}, floor())}
	after, err := c.do(t.Context(), v, next(v))
	if err != nil || after != retryRefused || c.memories["n"].why == "" || c.memories["n"].refused != start {
		t.Errorf("it looks again in %s and remembers %+v, error %v", after, c.memories["n"], err)
	}
	if diff := cmp.Diff([]int64{2000, 1}, r.sizes); diff != "" {
		t.Errorf("sizes asked for (-want,+got):\n%s", diff)
	}
}

// refusing refuses resizes to more than so much CPU.
type refusing struct {
	larger int64
	sizes  []int64
}

func (r *refusing) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var pod corev1.Pod
	_ = json.NewDecoder(request.Body).Decode(&pod)
	if strings.HasSuffix(request.URL.Path, "/resize") {
		asked := requested(&pod).cpu
		r.sizes = append(r.sizes, asked)
		if asked > r.larger {
			w.WriteHeader(http.StatusForbidden)
			return
		}
	}
	_ = json.NewEncoder(w).Encode(pod)
}
