// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/internal/logonce"
	"github.com/kube-annex/annex/internal/workloop"
)

const (
	// fleetInterval is how often the DaemonSet is looked for, and removeInterval whether all balloons have been deflated.
	fleetInterval  = 30 * time.Second
	removeInterval = time.Second
	// removePatience is how long balloons may take to be deflated before they are removed as they are.
	removePatience = 30 * time.Second
)

// keepFleet keeps the DaemonSet and its PriorityClass, or removes them, until the context ends.
func (c *Controller) keepFleet(ctx context.Context) {
	began, logged := c.options.Clock.Now(), logonce.Error{}
	for ctx.Err() == nil {
		interval, err := fleetInterval, error(nil)
		switch {
		case c.options.Mode == Remove && !c.deflated() && c.options.Clock.Since(began) < removePatience:
			interval = removeInterval
		case c.options.Mode == Remove:
			err = c.removeFleet(ctx)
		default:
			err = c.makeFleet(ctx)
		}
		if ctx.Err() == nil && logged.Changed(err) && err != nil {
			klog.FromContext(ctx).Error(err, "Cannot keep the DaemonSet of balloons as it shall be; trying again")
		}
		_ = workloop.Pause(ctx, c.options.Clock, interval)
	}
}

// makeFleet makes what there is not. What somebody else has made under these names stays as it is.
func (c *Controller) makeFleet(ctx context.Context) error {
	sets, err := c.client.AppsV1().DaemonSets(Namespace).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return fmt.Errorf("look for the DaemonSet of balloons: %w", err)
	}
	if len(sets.Items) > 0 {
		if slices.ContainsFunc(sets.Items, func(set appsv1.DaemonSet) bool { return set.Spec.Template.Spec.PriorityClassName == Name }) {
			return c.makePriorityClass(ctx)
		}
		return nil
	}
	if c.options.Image == "" {
		return fmt.Errorf("there is no DaemonSet with the label %s in %s: apply artifacts/deploy/balloons, or name an image with --node-balloon-image", label, Namespace)
	}
	if err := c.makePriorityClass(ctx); err != nil {
		return err
	}
	if _, err := c.client.AppsV1().DaemonSets(Namespace).Create(ctx, daemonSet(c.options.Image), metav1.CreateOptions{FieldManager: component}); err != nil {
		return fmt.Errorf("make the DaemonSet of balloons: %w", err)
	}
	klog.FromContext(ctx).Info("Made the DaemonSet of balloons", "daemonSet", klog.KRef(Namespace, Name), "image", c.options.Image)
	return nil
}

// makePriorityClass makes the class, without which there are no pods.
func (c *Controller) makePriorityClass(ctx context.Context) error {
	classes := c.client.SchedulingV1().PriorityClasses()
	_, err := classes.Get(ctx, Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		if err != nil {
			return fmt.Errorf("look for the PriorityClass of balloons: %w", err)
		}
		return nil
	}
	if _, err = classes.Create(ctx, priorityClass(), metav1.CreateOptions{FieldManager: component}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the PriorityClass of balloons: %w", err)
	}
	klog.FromContext(ctx).Info("Made the PriorityClass of balloons", "priorityClass", Name)
	return nil
}

// deflated tells whether all balloons on nodes are at their floor.
func (c *Controller) deflated() bool {
	for _, obj := range c.pods.GetStore().List() {
		pod := obj.(*corev1.Pod)
		if _, there, err := c.nodes.GetStore().GetByKey(nodeOf(pod)); err != nil || !there {
			continue // Nobody is left to deflate it.
		}
		if granted, ok := allocated(pod); ok && !ended(pod) && granted != floor() {
			return false
		}
	}
	return true
}

// removeFleet removes all balloons and what makes them.
func (c *Controller) removeFleet(ctx context.Context) error {
	sets, err := c.client.AppsV1().DaemonSets(Namespace).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return fmt.Errorf("look for the DaemonSet of balloons: %w", err)
	}
	for i := range sets.Items {
		uid := sets.Items[i].UID
		err = c.client.AppsV1().DaemonSets(Namespace).Delete(ctx, sets.Items[i].Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the DaemonSet %s of balloons: %w", sets.Items[i].Name, err)
		}
		klog.FromContext(ctx).Info("Removed the DaemonSet of balloons", "daemonSet", klog.KObj(&sets.Items[i]))
	}
	err = c.client.SchedulingV1().PriorityClasses().Delete(ctx, Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the PriorityClass of balloons: %w", err)
	}
	return nil
}
