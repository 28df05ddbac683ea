// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
)

// kindsAtOnce is how many kinds of one namespace are emptied at the same time.
const kindsAtOnce = 10

var errReplaced = errors.New("there is another namespace of the name, or it is no longer being deleted")

// attempt empties a namespace and lets it go if nothing is left. It returns when to look at it again, or an error where to try
// again soon.
func (c *Controller) attempt(ctx context.Context, name string) (time.Duration, error) {
	ns, err := c.namespaces.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read it: %w", err)
	}
	if ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) > 0 && !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return 0, nil
	}
	settled := c.since(ns.UID).Add(c.settle)
	began := time.Now()
	var notBefore time.Time
	if !began.Before(settled) {
		notBefore = settled
	}
	answer, err := c.kinds.since(ctx, notBefore)
	if err != nil {
		return 0, err
	}
	found := c.empty(ctx, ns, answer)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if ns, err = c.report(ctx, ns, found); err != nil {
		return 0, err
	}
	if why := found.err(); why != nil {
		return 0, why
	}
	if wait := settled.Sub(began); wait > 0 {
		return max(wait-time.Since(began), time.Millisecond), nil
	}
	return 0, c.release(ctx, ns)
}

// empty deletes the objects of all kinds.
func (c *Controller) empty(ctx context.Context, ns *corev1.Namespace, known answer) *findings {
	found := newFindings(known)
	var mu sync.Mutex
	places := make(chan struct{}, kindsAtOnce)
	var running sync.WaitGroup
	for _, k := range known.kinds {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			var rest left
			err := c.still(ns)
			if err == nil {
				err = leadership.Call(ctx, func(ctx context.Context) (err error) {
					rest, err = c.content.empty(ctx, ns.Name, k)
					return err
				})
			}
			if apierrors.IsNotFound(err) {
				c.kinds.forget(known)
			}
			mu.Lock()
			defer mu.Unlock()
			found.add(k, rest, err)
		})
	}
	running.Wait()
	return found
}

// still makes sure that the namespace whose objects are about to be deleted is the one that is meant: one that was forced to go may
// have a successor of its name. The informer never knows less than what caused the attempt.
func (c *Controller) still(ns *corev1.Namespace) error {
	current, err := c.lister.Get(ns.Name)
	if apierrors.IsNotFound(err) {
		return errReplaced
	}
	if err != nil {
		return err
	}
	if current.UID != ns.UID || current.DeletionTimestamp == nil {
		return errReplaced
	}
	return nil
}

// report writes what an attempt came to into the conditions, if it is something new, and returns the namespace as it is stored.
func (c *Controller) report(ctx context.Context, ns *corev1.Namespace, found *findings) (*corev1.Namespace, error) {
	want := found.conditions()
	err := c.change(ctx, &ns, func(ns *corev1.Namespace) (*corev1.Namespace, error) {
		changed := ns.DeepCopy()
		changed.Status.Phase = corev1.NamespaceTerminating
		if !setConditions(&changed.Status, want, metav1.Now()) && ns.Status.Phase == corev1.NamespaceTerminating {
			return ns, nil
		}
		return c.namespaces.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("write its conditions: %w", err)
	}
	return ns, nil
}

// release takes our finalizer off an empty namespace, with which it goes unless somebody else holds it.
func (c *Controller) release(ctx context.Context, ns *corev1.Namespace) error {
	err := c.change(ctx, &ns, func(ns *corev1.Namespace) (*corev1.Namespace, error) {
		if len(ns.Spec.Finalizers) == 0 {
			// Somebody took our finalizer off before the deletion.
			return ns, c.namespaces.Delete(ctx, ns.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ns.UID}})
		}
		changed := ns.DeepCopy()
		changed.Spec.Finalizers = slices.DeleteFunc(changed.Spec.Finalizers, func(finalizer corev1.FinalizerName) bool {
			return finalizer == corev1.FinalizerKubernetes
		})
		return c.namespaces.Finalize(ctx, changed, metav1.UpdateOptions{})
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take the finalizer off: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("Namespace is empty, and was let go", "namespace", ns.Name)
	return nil
}

// change writes a namespace, on top of what others have written.
func (c *Controller) change(ctx context.Context, ns **corev1.Namespace, write func(*corev1.Namespace) (*corev1.Namespace, error)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		written, err := write(*ns)
		if err == nil {
			*ns = written
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		current, getErr := c.namespaces.Get(ctx, (*ns).Name, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		if current.UID != (*ns).UID {
			return errReplaced
		}
		*ns = current
		return err
	})
}
