// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

const gi = 1 << 30

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testNode(edit ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-1"}, Status: corev1.NodeStatus{Allocatable: size{4000, 8 * gi}.list()}}
	for _, f := range edit {
		f(n)
	}
	return n
}

func testPod(asks, has size, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "balloon-1", UID: "pod-1", Generation: 2},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: containerName, Resources: corev1.ResourceRequirements{Requests: asks.list()}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 2,
			ContainerStatuses: []corev1.ContainerStatus{{Name: containerName, AllocatedResources: has.list()}},
		},
	}
	for _, f := range edit {
		f(p)
	}
	return p
}

func pending(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: 2,
		})
	}
}

// answeredAt sets the generations that the pod's status and its condition are about.
func answeredAt(status, condition int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ObservedGeneration, p.Status.Conditions[0].ObservedGeneration = status, condition
	}
}

func testBalloon(spec v1alpha1.NodeBalloonSpec, edit ...func(*v1alpha1.NodeBalloon)) *v1alpha1.NodeBalloon {
	b := &v1alpha1.NodeBalloon{ObjectMeta: metav1.ObjectMeta{Name: "n", Generation: 3}, Spec: spec}
	for _, f := range edit {
		f(b)
	}
	return b
}

// held is a status in which the balloon held so much, with a verdict for the present generation.
func held(has size, reason string) func(*v1alpha1.NodeBalloon) {
	return func(b *v1alpha1.NodeBalloon) {
		b.Status = v1alpha1.NodeBalloonStatus{
			ObservedGeneration: 3, NodeUID: "node-1", PodName: "balloon-1", Allocatable: size{4000, 8 * gi}.list(), Allocated: has.list(),
			Conditions: []metav1.Condition{{Type: v1alpha1.NodeBalloonSettled, Reason: reason, Status: metav1.ConditionFalse}},
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	taint := &corev1.Taint{Key: "example.com/starting", Effect: corev1.TaintEffectNoSchedule}
	tainted := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{*taint} }
	two := v1alpha1.NodeBalloonSpec{BalloonSize: size{2000, 4 * gi}.list()}
	hold := two
	hold.ReclaimPolicy = ptr.To(v1alpha1.ReclaimHold)
	target := v1alpha1.NodeBalloonSpec{NodeSize: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	want := size{2000, 4 * gi}
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }
	renamed := func(p *corev1.Pod) { p.Name, p.UID = "balloon-2", "pod-2" }
	unadmitted := func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }
	waited := memory{pod: "pod-1", wanted: want, waiting: start.Add(-time.Minute), asked: start.Add(-time.Minute)}

	type result struct {
		Resize         *size
		Remove         bool
		Taint, Untaint bool
		NeedOthers     bool
		Reason         string
		Has            *size
		After          time.Duration
	}
	for name, tc := range map[string]struct {
		view view
		want result
	}{
		"no node": {
			view: view{balloon: testBalloon(two, held(want, v1alpha1.ReasonSettled))},
			want: result{Reason: v1alpha1.ReasonPending},
		},
		"no pod yet": {
			view: view{node: testNode(), balloon: testBalloon(two), taint: taint},
			want: result{Reason: v1alpha1.ReasonPending, Taint: true},
		},
		"no pod yet, and the node has its taint": {
			view: view{node: testNode(tainted), balloon: testBalloon(two), taint: taint},
			want: result{Reason: v1alpha1.ReasonPending},
		},
		"no pod, and none is needed": {
			view: view{node: testNode(), balloon: testBalloon(v1alpha1.NodeBalloonSpec{BalloonSize: size{}.list()}), taint: taint},
			want: result{Reason: v1alpha1.ReasonPending},
		},
		"pod that its kubelet has not admitted": {
			view: view{node: testNode(tainted), balloon: testBalloon(two), taint: taint, pod: testPod(floor(), size{}, unadmitted)},
			want: result{Reason: v1alpha1.ReasonPending},
		},
		"new pod": {
			view: view{node: testNode(tainted), balloon: testBalloon(two), taint: taint, pod: testPod(floor(), floor())},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &want, Has: ptr.To(floor())},
		},
		"growing on a node without the taint": {
			view: view{node: testNode(), balloon: testBalloon(two), taint: taint, pod: testPod(floor(), floor())},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &want, Has: ptr.To(floor())},
		},
		"granted": {
			view: view{node: testNode(tainted), balloon: testBalloon(two), taint: taint, pod: testPod(want, want)},
			want: result{Reason: v1alpha1.ReasonSettled, Untaint: true, Has: &want},
		},
		"target mode": {
			view: view{node: testNode(), balloon: testBalloon(target), pod: testPod(floor(), floor())},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &size{3000, 16 << 20}, Has: ptr.To(floor())},
		},
		"target above the node": {
			view: view{
				node: testNode(), pod: testPod(want, want),
				balloon: testBalloon(v1alpha1.NodeBalloonSpec{NodeSize: size{9000, 99 * gi}.list()}),
			},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: ptr.To(floor()), Has: &want},
		},
		"no NodeBalloon": {
			view: view{node: testNode(tainted), taint: taint, pod: testPod(want, want)},
			want: result{Resize: ptr.To(floor()), Untaint: true},
		},
		"not answered yet": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(want, floor(), func(p *corev1.Pod) { p.Status.ObservedGeneration = 1 })},
			want: result{Reason: v1alpha1.ReasonResizing, Has: ptr.To(floor()), After: answerTime},
		},
		"not answered for a while": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(want, floor()), memory: memory{pod: "pod-1", wanted: want, asked: start.Add(-10 * time.Second)}},
			want: result{Reason: v1alpha1.ReasonResizing, Has: ptr.To(floor()), After: answerTime - 10*time.Second},
		},
		"not answered in time": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(want, floor()), memory: memory{pod: "pod-1", wanted: want, asked: start.Add(-answerTime)}},
			want: result{Reason: v1alpha1.ReasonResizing, Has: ptr.To(floor())},
		},
		"answer to an earlier request": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(want, floor(), pending(corev1.PodReasonDeferred, "no room"), answeredAt(1, 1))},
			want: result{Reason: v1alpha1.ReasonResizing, Has: ptr.To(floor()), After: answerTime},
		},
		"answer that is newer than the rest of the pod's status": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(want, floor(), pending(corev1.PodReasonDeferred, "no room"), answeredAt(1, 2))},
			want: result{Reason: v1alpha1.ReasonDeferred, Has: ptr.To(floor()), After: time.Minute},
		},
		"answer that is older than the rest of the pod's status": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(want, floor(), pending(corev1.PodReasonDeferred, "no room"), answeredAt(2, 1))},
			want: result{Reason: v1alpha1.ReasonDeferred, Has: ptr.To(floor()), After: time.Minute},
		},
		"no longer deferred": {
			view: view{
				node: testNode(), balloon: testBalloon(two),
				pod: testPod(want, floor(), pending(corev1.PodReasonDeferred, "no room"), func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }),
			},
			want: result{Reason: v1alpha1.ReasonResizing, Has: ptr.To(floor()), After: answerTime},
		},
		"deferred": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(want, floor(), pending(corev1.PodReasonDeferred, "no room"))},
			want: result{Reason: v1alpha1.ReasonDeferred, Has: ptr.To(floor()), After: time.Minute},
		},
		"deferred till the deadline": {
			view: view{node: testNode(), balloon: testBalloon(two, held(floor(), v1alpha1.ReasonDeferred)), pod: testPod(want, floor(), pending(corev1.PodReasonDeferred, "no room")), memory: waited},
			want: result{Reason: v1alpha1.ReasonReverted, Resize: ptr.To(floor()), Has: ptr.To(floor())},
		},
		"deferred till the deadline, and held": {
			view: view{node: testNode(), balloon: testBalloon(hold, held(floor(), v1alpha1.ReasonDeferred)), pod: testPod(want, floor(), pending(corev1.PodReasonDeferred, "no room")), memory: waited},
			want: result{Reason: v1alpha1.ReasonDeferred, Has: ptr.To(floor())},
		},
		"shrink deferred longer than the deadline": {
			view: view{
				node: testNode(), balloon: testBalloon(two, held(size{3000, 4 * gi}, v1alpha1.ReasonResizing)), memory: waited,
				pod: testPod(want, size{3000, 4 * gi}, pending(corev1.PodReasonDeferred, "disk pressure")),
			},
			want: result{Reason: v1alpha1.ReasonResizing, Has: &size{3000, 4 * gi}},
		},
		"shrink deferred longer than the deadline, without a NodeBalloon": {
			view: view{
				node: testNode(), pod: testPod(floor(), want, pending(corev1.PodReasonDeferred, "disk pressure")),
				memory: memory{pod: "pod-1", wanted: floor(), waiting: waited.waiting, asked: waited.asked},
			},
			want: result{},
		},
		"growth to the minimum deferred longer than the deadline, without a NodeBalloon": {
			view: view{
				node: testNode(), pod: testPod(floor(), size{1, 1}, pending(corev1.PodReasonDeferred, "no room")),
				memory: memory{pod: "pod-1", wanted: floor(), waiting: waited.waiting, asked: waited.asked},
			},
			want: result{},
		},
		"reverted": {
			view: view{node: testNode(), balloon: testBalloon(two, held(floor(), v1alpha1.ReasonReverted)), pod: testPod(floor(), floor())},
			want: result{Reason: v1alpha1.ReasonReverted, Has: ptr.To(floor())},
		},
		"reverted, and the spec has changed": {
			view: view{node: testNode(), pod: testPod(floor(), floor()), balloon: testBalloon(two, held(floor(), v1alpha1.ReasonReverted), func(b *v1alpha1.NodeBalloon) { b.Generation = 4 })},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &want, Has: ptr.To(floor())},
		},
		"reverted, and the node has grown": {
			view: view{
				node:    testNode(func(n *corev1.Node) { n.Status.Allocatable = size{8000, 8 * gi}.list() }),
				balloon: testBalloon(two, held(floor(), v1alpha1.ReasonReverted)), pod: testPod(floor(), floor()),
			},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &want, Has: ptr.To(floor())},
		},
		"reverted, and the node is another one": {
			view: view{
				node:    testNode(func(n *corev1.Node) { n.UID = "node-2" }),
				balloon: testBalloon(two, held(floor(), v1alpha1.ReasonReverted)), pod: testPod(floor(), floor()),
			},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &want, Has: ptr.To(floor())},
		},
		"larger than the node": {
			view: view{node: testNode(), balloon: testBalloon(v1alpha1.NodeBalloonSpec{BalloonSize: size{9000, gi}.list()}), pod: testPod(floor(), floor())},
			want: result{Reason: v1alpha1.ReasonInfeasible, Has: ptr.To(floor())},
		},
		"infeasible by the kubelet": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(want, floor(), pending(corev1.PodReasonInfeasible, "never"))},
			want: result{Reason: v1alpha1.ReasonInfeasible, Resize: ptr.To(floor()), Has: ptr.To(floor()), After: retryRefused},
		},
		"refused a minute ago": {
			view: view{
				node: testNode(), balloon: testBalloon(two, held(floor(), v1alpha1.ReasonInfeasible)), pod: testPod(floor(), floor()),
				memory: memory{pod: "pod-1", wanted: want, refused: start.Add(-retryRefused), why: "never"},
			},
			// It is not called anything else until the kubelet has granted it.
			want: result{Reason: v1alpha1.ReasonInfeasible, Resize: &want, Has: ptr.To(floor())},
		},
		"critical to the system": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(floor(), floor(), func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](2000000000) })},
			want: result{Reason: v1alpha1.ReasonInfeasible, Has: ptr.To(floor())},
		},
		"critical to the system, and to shrink": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(size{3000, 4 * gi}, size{3000, 4 * gi}, func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](2000001000) })},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &want, Has: &size{3000, 4 * gi}},
		},
		"priority of the class of balloons": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(floor(), floor(), func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](priority) })},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &want, Has: ptr.To(floor())},
		},
		"as large as before the kubelet has answered": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(want, want, func(p *corev1.Pod) { p.Status.ObservedGeneration = 1 })},
			want: result{Reason: v1alpha1.ReasonResizing, Has: &want, After: answerTime},
		},
		"granted by a kubelet that does not say what it has seen": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(want, want, func(p *corev1.Pod) { p.Status.ObservedGeneration = 0 })},
			want: result{Reason: v1alpha1.ReasonSettled, Has: &want},
		},
		"kubelet that cannot resize": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(floor(), size{}, func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodRunning} })},
			want: result{Reason: v1alpha1.ReasonPending},
		},
		"pod of somebody else's making": {
			view: view{node: testNode(), balloon: testBalloon(two), pod: testPod(floor(), floor(), func(p *corev1.Pod) { p.Spec.Containers[0].Name = "main" })},
			want: result{Reason: v1alpha1.ReasonPending},
		},
		"more than can be counted": {
			view: view{
				node: testNode(), pod: testPod(floor(), floor()),
				balloon: testBalloon(v1alpha1.NodeBalloonSpec{BalloonSize: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("100E"), corev1.ResourceMemory: resource.MustParse("9223372036854775808E"),
				}}),
			},
			want: result{Reason: v1alpha1.ReasonInfeasible, Has: ptr.To(floor())},
		},
		"displaced by more than can be counted": {
			view: view{
				node: testNode(), balloon: testBalloon(two, held(size{}, v1alpha1.ReasonDisplaced)), pod: testPod(floor(), floor()),
				others: ptr.To(size{math.MaxInt64, 1}.plus(size{1, math.MaxInt64})),
			},
			want: result{Reason: v1alpha1.ReasonDisplaced, Has: ptr.To(floor()), After: retryFit},
		},
		"infeasible a moment ago": {
			view: view{
				node: testNode(), balloon: testBalloon(two, held(floor(), v1alpha1.ReasonInfeasible)), pod: testPod(floor(), floor()),
				memory: memory{pod: "pod-1", wanted: want, refused: start.Add(-20 * time.Second), why: "never"},
			},
			want: result{Reason: v1alpha1.ReasonInfeasible, Has: ptr.To(floor()), After: 40 * time.Second},
		},
		"being deleted": {
			view: view{node: testNode(), balloon: testBalloon(two, held(want, v1alpha1.ReasonSettled)), taint: taint, dying: testPod(want, want, deleted)},
			want: result{Reason: v1alpha1.ReasonPending, Taint: true, Has: &want},
		},
		"gone": {
			view: view{node: testNode(), balloon: testBalloon(two, held(want, v1alpha1.ReasonSettled)), taint: taint},
			want: result{Reason: v1alpha1.ReasonDisplaced, Taint: true},
		},
		"failed": {
			view: view{node: testNode(), balloon: testBalloon(two, held(want, v1alpha1.ReasonSettled)), taint: taint, pod: testPod(want, want, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
			want: result{Reason: v1alpha1.ReasonDisplaced, Taint: true, Remove: true},
		},
		"displaced, and nobody has counted": {
			view: view{node: testNode(tainted), balloon: testBalloon(two, held(size{}, v1alpha1.ReasonDisplaced)), taint: taint, pod: testPod(floor(), floor())},
			want: result{NeedOthers: true, Has: ptr.To(floor()), After: retryFit},
		},
		"displaced, with some room": {
			view: view{node: testNode(tainted), balloon: testBalloon(two, held(size{}, v1alpha1.ReasonDisplaced)), taint: taint, pod: testPod(floor(), floor()), others: &size{3000, gi}},
			want: result{Reason: v1alpha1.ReasonDisplaced, Resize: &size{1000, 4 * gi}, Has: ptr.To(floor()), After: retryFit},
		},
		"displaced, with some room, on a node without the taint": {
			view: view{node: testNode(), balloon: testBalloon(two, held(size{}, v1alpha1.ReasonDisplaced)), taint: taint, pod: testPod(floor(), floor()), others: &size{3000, gi}},
			want: result{Reason: v1alpha1.ReasonDisplaced, Resize: &size{1000, 4 * gi}, Taint: true, Has: ptr.To(floor()), After: retryFit},
		},
		"displaced, and larger than it should be": {
			view: view{
				node: testNode(), balloon: testBalloon(two, held(size{3000, 4 * gi}, v1alpha1.ReasonDisplaced)), taint: taint,
				pod: testPod(size{3000, 4 * gi}, size{3000, 4 * gi}),
			},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &want, Has: &size{3000, 4 * gi}},
		},
		"displaced, and as large as fits": {
			view: view{
				node: testNode(tainted), balloon: testBalloon(two, held(size{1000, 4 * gi}, v1alpha1.ReasonDisplaced)), taint: taint,
				pod: testPod(size{1000, 4 * gi}, size{1000, 4 * gi}), others: &size{3000, gi},
			},
			want: result{Reason: v1alpha1.ReasonDisplaced, Untaint: true, Has: &size{1000, 4 * gi}, After: retryFit},
		},
		"displaced, and held": {
			view: view{node: testNode(tainted), balloon: testBalloon(hold, held(size{}, v1alpha1.ReasonDisplaced)), taint: taint, pod: testPod(floor(), floor())},
			want: result{Reason: v1alpha1.ReasonDisplaced, Resize: &want, Has: ptr.To(floor())},
		},
		"displaced, and held until there is room": {
			view: view{
				node: testNode(tainted), balloon: testBalloon(hold, held(size{}, v1alpha1.ReasonDisplaced)), taint: taint,
				pod: testPod(want, floor(), pending(corev1.PodReasonDeferred, "no room")),
			},
			want: result{Reason: v1alpha1.ReasonDisplaced, Untaint: true, Has: ptr.To(floor())},
		},
		"displaced, and held before the kubelet has answered": {
			view: view{node: testNode(tainted), balloon: testBalloon(hold, held(size{}, v1alpha1.ReasonDisplaced)), taint: taint, pod: testPod(want, floor())},
			want: result{Reason: v1alpha1.ReasonDisplaced, Has: ptr.To(floor()), After: answerTime},
		},
		"displaced, and regained": {
			view: view{node: testNode(tainted), balloon: testBalloon(two, held(floor(), v1alpha1.ReasonDisplaced)), taint: taint, pod: testPod(want, want)},
			want: result{Reason: v1alpha1.ReasonSettled, Untaint: true, Has: &want},
		},
		"replaced unseen": {
			view: view{node: testNode(), balloon: testBalloon(two, held(want, v1alpha1.ReasonSettled)), pod: testPod(floor(), floor(), renamed), others: &size{}},
			want: result{Reason: v1alpha1.ReasonDisplaced, Resize: &want, Has: ptr.To(floor()), After: retryFit},
		},
		"replaced unseen while it held nothing": {
			view: view{node: testNode(), balloon: testBalloon(two, held(floor(), v1alpha1.ReasonResizing)), pod: testPod(floor(), floor(), renamed)},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &want, Has: ptr.To(floor())},
		},
		"grows on": {
			view: view{node: testNode(), balloon: testBalloon(two, held(size{1000, gi}, v1alpha1.ReasonResizing)), pod: testPod(size{1000, gi}, size{1000, gi})},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &want, Has: &size{1000, gi}},
		},
		"displaced, and the next pod is being started": {
			view: view{node: testNode(), balloon: testBalloon(two, held(size{}, v1alpha1.ReasonDisplaced)), pod: testPod(floor(), size{}, unadmitted)},
			want: result{Reason: v1alpha1.ReasonDisplaced},
		},
		"being started, without a NodeBalloon": {
			view: view{node: testNode(), pod: testPod(floor(), size{}, unadmitted)},
		},
		"status without the condition": {
			view: view{node: testNode(), balloon: testBalloon(two, held(floor(), ""), func(b *v1alpha1.NodeBalloon) { b.Status.Conditions = nil }), pod: testPod(floor(), floor())},
			want: result{Reason: v1alpha1.ReasonResizing, Resize: &want, Has: ptr.To(floor())},
		},
		"all are removed": {
			view: view{removing: true, node: testNode(tainted), balloon: testBalloon(two, held(want, v1alpha1.ReasonSettled)), taint: taint, pod: testPod(want, want)},
			want: result{Reason: v1alpha1.ReasonPending, Resize: ptr.To(floor()), Untaint: true, Has: &want},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.view.now = start
			c := next(tc.view)
			got := result{Resize: c.resize, Remove: c.remove, Taint: c.taint, Untaint: c.untaint, NeedOthers: c.needOthers, After: c.after}
			if c.status != nil {
				if condition := meta.FindStatusCondition(c.status.Conditions, v1alpha1.NodeBalloonSettled); condition != nil && !c.needOthers {
					got.Reason = condition.Reason
					if (condition.Status == metav1.ConditionTrue) != (condition.Reason == v1alpha1.ReasonSettled) {
						t.Errorf("the condition is %s with the reason %s", condition.Status, condition.Reason)
					}
				}
				if c.status.Allocated != nil {
					got.Has = ptr.To(sizeOf(c.status.Allocated))
				}
				if uid := types.UID("node-1"); tc.view.node == nil && c.status.NodeUID != "" || tc.view.node != nil && c.status.NodeUID != tc.view.node.UID {
					t.Errorf("the status is about node %q, want %q or that of the view", c.status.NodeUID, uid)
				}
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(size{})); diff != "" {
				t.Errorf("what is next (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestWhatAPodThatIsBeingStartedWaitsFor(t *testing.T) {
	t.Parallel()
	running := corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: 2}
	unscheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no room"}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"not scheduled":                  {corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{unscheduled}}, "is not scheduled: no room"},
		"kubelet that reports nothing":   {corev1.PodStatus{Phase: corev1.PodPending}, "is being started"},
		"kubelet that can resize":        {running, "is being started"},
		"kubelet that is too old for it": {corev1.PodStatus{Phase: corev1.PodRunning}, "takes Kubernetes 1.35 or later"},
	} {
		pod := testPod(floor(), size{}, func(p *corev1.Pod) { p.Status = tc.status })
		status := next(view{now: start, node: testNode(), balloon: testBalloon(v1alpha1.NodeBalloonSpec{}), pod: pod}).status
		settled := meta.FindStatusCondition(status.Conditions, v1alpha1.NodeBalloonSettled)
		if settled == nil || !strings.Contains(settled.Message, tc.want) || status.PodName != "balloon-1" {
			t.Errorf("%s: pod %q, condition %+v; want %q", name, status.PodName, settled, tc.want)
		}
	}
}

func TestARefusalWithoutAMessageIsNotRepeated(t *testing.T) {
	t.Parallel()
	two := size{2000, 4 * gi}
	v := view{
		now: start, node: testNode(), balloon: testBalloon(v1alpha1.NodeBalloonSpec{BalloonSize: two.list()}),
		pod: testPod(two, floor(), pending(corev1.PodReasonInfeasible, "")),
	}
	v.memory = next(v).memory
	v.now, v.pod = start.Add(time.Second), testPod(floor(), floor())
	if c := next(v); c.resize != nil || c.after != retryRefused-time.Second {
		t.Errorf("a second after the refusal it asks for %v and looks again in %s", c.resize, c.after)
	}
}
