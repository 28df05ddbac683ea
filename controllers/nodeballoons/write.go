// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

// reconcile does what is next about a node, and tells when to look again.
func (c *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	v, err := c.view(name)
	if err != nil {
		return 0, err
	}
	c.measure(name, v)
	if v.memory.ahead(v.pod) {
		return 0, nil // What the pod has become is about to be seen.
	}
	decided, err := c.decide(ctx, v)
	if err != nil {
		return 0, err
	}
	return c.do(ctx, v, decided)
}

// decide counts the other pods on the node if that matters.
func (c *Controller) decide(ctx context.Context, v view) (change, error) {
	decided := next(v)
	if !decided.needOthers {
		return decided, nil
	}
	var err error
	if v.others, err = c.others(ctx, v.name); err != nil {
		return change{}, err
	}
	return next(v), nil
}

func (c *Controller) view(name string) (view, error) {
	v := view{name: name, now: c.options.Clock.Now(), removing: c.options.Mode == Remove, taint: c.taint}
	if obj, ok, err := c.nodes.GetStore().GetByKey(name); err != nil {
		return v, err
	} else if ok {
		v.node = obj.(*corev1.Node)
	}
	if obj, ok, err := c.balloons.GetStore().GetByKey(name); err != nil {
		return v, err
	} else if ok {
		v.balloon = obj.(*v1alpha1.NodeBalloon)
	}
	objects, err := c.pods.GetIndexer().ByIndex(byNode, name)
	if err != nil {
		return v, err
	}
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, obj := range objects {
		pods = append(pods, obj.(*corev1.Pod))
	}
	v.pod, v.dying = podsOf(pods)
	c.mu.Lock()
	v.memory = c.memories[name]
	c.mu.Unlock()
	return v, nil
}

// do changes the cluster first and tells of it then: what is not told is found again.
func (c *Controller) do(ctx context.Context, v view, decided change) (time.Duration, error) {
	if decided.taint || decided.untaint {
		if err := c.setTaint(ctx, v.node, decided.taint); err != nil {
			return 0, err
		}
		klog.FromContext(ctx).V(2).Info("Changed the taint of a node", "node", v.name, "tainted", decided.taint)
	}
	if decided.remove {
		uid := v.pod.UID
		err := c.client.CoreV1().Pods(Namespace).Delete(ctx, v.pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return 0, fmt.Errorf("delete the balloon pod %s that has ended: %w", v.pod.Name, err)
		}
	}
	if decided.resize != nil {
		err := c.resize(ctx, v, &decided)
		if isRefusal(err) {
			decided, err = c.refused(ctx, v, decided, err)
		}
		if err != nil {
			return 0, err
		}
	}
	c.remember(v.name, decided.memory)
	return decided.after, c.report(ctx, v, decided.status)
}

// refused decides anew with what the API said about a resize. Trying the same again at once would lead to the same.
func (c *Controller) refused(ctx context.Context, v view, decided change, why error) (change, error) {
	decided.memory.refused, decided.memory.why = v.now, why.Error()
	v.memory = decided.memory
	tried := *decided.resize
	decided, err := c.decide(ctx, v)
	if err != nil {
		return change{}, err
	}
	if decided.after == 0 {
		decided.after = retryRefused
	}
	if decided.resize != nil && *decided.resize != tried {
		if err := c.resize(ctx, v, &decided); err != nil && !isRefusal(err) {
			return change{}, err
		}
	}
	return decided, nil
}

// isRefusal tells an answer that the same request would get again.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// report writes the status if it has changed, and events about what is new in it.
func (c *Controller) report(ctx context.Context, v view, status *v1alpha1.NodeBalloonStatus) error {
	if v.balloon == nil || equality.Semantic.DeepEqual(v.balloon.Status, *status) {
		return nil
	}
	updated := v.balloon.DeepCopy()
	updated.Status = *status
	if _, err := c.annex.NodeV1alpha1().NodeBalloons().UpdateStatus(ctx, updated, metav1.UpdateOptions{FieldManager: component}); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // The change that is in the way is about to be seen.
		}
		return fmt.Errorf("write the status of NodeBalloon %s: %w", v.name, err)
	}
	c.events.tell(ctx, v.balloon, v.node, status)
	return nil
}

func (c *Controller) remember(name string, m memory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m == (memory{}) {
		delete(c.memories, name)
		return
	}
	c.memories[name] = m
}

func (c *Controller) measure(name string, v view) {
	if v.node == nil {
		c.options.Metrics.forget(name)
		return
	}
	var holds size
	for _, pod := range []*corev1.Pod{v.dying, v.pod} {
		if pod == nil || ended(pod) {
			continue
		}
		if granted, ok := allocated(pod); ok {
			holds = granted
		}
	}
	c.options.Metrics.set(name, sizeOf(v.node.Status.Allocatable), holds)
}

// resize asks for what has been decided, and notes what the pod is from then on.
func (c *Controller) resize(ctx context.Context, v view, decided *change) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.pod.UID},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": containerName, "resources": map[string]any{"requests": decided.resize.list()}}}},
	})
	if err != nil {
		return fmt.Errorf("encode the size of the balloon pod %s: %w", v.pod.Name, err)
	}
	pod, err := c.client.CoreV1().Pods(Namespace).Patch(ctx, v.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: component}, "resize")
	if err != nil {
		return fmt.Errorf("resize the balloon pod %s: %w", v.pod.Name, err)
	}
	decided.memory.pod, decided.memory.generation = string(pod.UID), pod.Generation
	klog.FromContext(ctx).V(2).Info("Asked for another size of a balloon", "node", v.name, "pod", klog.KObj(pod), "size", decided.resize)
	return nil
}

// setTaint writes the list as it was read, with or without the taint; a conflict has it read again.
func (c *Controller) setTaint(ctx context.Context, node *corev1.Node, tainted bool) error {
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.MatchTaint(c.taint) })
	if tainted {
		taints = append(taints, *c.taint)
	}
	if taints == nil {
		taints = []corev1.Taint{}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return fmt.Errorf("encode the taints of node %s: %w", node.Name, err)
	}
	if _, err = c.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: component}); err != nil {
		return fmt.Errorf("change the taint of node %s: %w", node.Name, err)
	}
	return nil
}

// others sums up what the pods on a node request besides balloons. It reads them when it is asked, which is seldom.
func (c *Controller) others(ctx context.Context, node string) (*size, error) {
	pods, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list the pods on node %s: %w", node, err)
	}
	var sum size
	for i := range pods.Items {
		pod := &pods.Items[i]
		if ended(pod) || pod.Namespace == Namespace && pod.Labels[Label] == "true" {
			continue
		}
		sum = sum.plus(sizeOf(resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true})))
	}
	return &sum, nil
}

// sameNode tells whether nothing has changed about a node that matters here.
func sameNode(a, b *corev1.Node) bool {
	return a.UID == b.UID && sizeOf(a.Status.Allocatable) == sizeOf(b.Status.Allocatable) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints)
}
