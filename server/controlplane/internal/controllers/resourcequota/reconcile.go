// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/tools/cache"
)

// staleRetry is how soon a quota is looked at again that somebody else has written meanwhile.
const staleRetry = 20 * time.Millisecond

// definitions are the kind whose objects define custom resources. They are watched where a quota counts a kind that is not there.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// reconcile writes what is used of a quota. It returns when to look again without being told to, 0 for never.
func (c *Controller) reconcile(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, err
	}
	quota, err := c.lister.ResourceQuotas(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.following.follow(ctx, key, nil)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	c.charges.see(quota) // the informer has it before it tells of it
	round := &round{
		Controller: c, quota: quota, used: corev1.ResourceList{}, counts: map[schema.GroupResource]counted{}, recent: map[corev1.ResourceName]recent{},
		taken: map[corev1.ResourceName]string{},
	}
	round.kinds(ctx, key)
	for name := range quota.Spec.Hard {
		// It has to be known before it is counted what may not be stored yet.
		amount, wait := c.charges.recent(quota.UID, name)
		round.recent[name] = recent{amount, wait, c.charges.deletions(quota.UID, name)}
	}
	for name := range quota.Spec.Hard {
		round.measure(ctx, name)
	}
	if !equal(quota.Spec.Hard, quota.Status.Hard) || !equal(round.used, quota.Status.Used) {
		if err := c.write(ctx, quota, round.used); apierrors.IsConflict(err) {
			round.lookAgain(staleRetry)
			return round.again, errors.Join(round.errs...)
		} else if err != nil && !apierrors.IsNotFound(err) {
			round.errs = append(round.errs, fmt.Errorf("write what is used: %w", err))
		}
	}
	// After another error the write may have been done, and a deletion must not be taken into account twice.
	for name, version := range round.taken {
		c.charges.take(quota.UID, name, round.recent[name].deletions, version)
	}
	return round.again, errors.Join(round.errs...)
}

func (c *Controller) write(ctx context.Context, quota *corev1.ResourceQuota, used corev1.ResourceList) error {
	changed := quota.DeepCopy()
	changed.Status = corev1.ResourceQuotaStatus{Hard: changed.Spec.Hard.DeepCopy(), Used: used}
	c.charges.write(quota.UID, used)
	defer c.charges.write(quota.UID, nil)
	written, err := c.quotas.ResourceQuotas(quota.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err == nil {
		c.charges.see(written)
	}
	return err
}

// equal is exact about which names there are.
func equal(a, b corev1.ResourceList) bool { return len(a) == len(b) && quotav1.Equals(a, b) }

// round is one look at a quota, as it was at the beginning: a charge that came after that makes the write fail.
type round struct {
	*Controller
	quota  *corev1.ResourceQuota
	served map[schema.GroupResource]schema.GroupVersionResource
	counts map[schema.GroupResource]counted
	recent map[corev1.ResourceName]recent
	used   corev1.ResourceList
	// taken has the numbers that take deletions into account, with the version of the list they were taken from, or none.
	taken map[corev1.ResourceName]string
	again time.Duration
	errs  []error
}

// recent is what charges.recent and charges.deletions said.
type recent struct {
	amount    resource.Quantity
	wait      time.Duration
	deletions int
}

// kinds finds out which kinds the quota counts, and has them watched from now on.
func (r *round) kinds(ctx context.Context, key string) {
	r.served = map[schema.GroupResource]schema.GroupVersionResource{}
	if scoped(r.quota) {
		r.following.follow(ctx, key, nil)
		return
	}
	lacking := false
	for name := range r.quota.Spec.Hard {
		kind, ok := kindOf(name)
		if !ok {
			continue
		}
		served, wait, err := r.known.resolve(ctx, kind)
		switch {
		case err != nil:
			r.errs = append(r.errs, fmt.Errorf("find out whether there is %s: %w", kind, err))
			r.keep(name)
		case wait > 0:
			lacking = true
			r.lookAgain(wait)
		default:
			r.served[kind] = served
		}
	}
	watched := maps.Clone(r.served)
	if lacking {
		watched[definitions.GroupResource()] = definitions
	}
	r.following.follow(ctx, key, watched)
}

// measure sets how much of one name is used. There is none for what is not counted here, and for a kind that is not there.
func (r *round) measure(ctx context.Context, name corev1.ResourceName) {
	kind, ok := kindOf(name)
	if !ok {
		return
	}
	if scoped(r.quota) {
		r.used[name] = *resource.NewQuantity(0, resource.DecimalSI)
		return
	}
	served, ok := r.served[kind]
	if !ok {
		return
	}
	total, ok := r.counts[kind]
	if !ok {
		var err error
		total, err = count(ctx, r.objects, served, r.quota.Namespace)
		if absent(err) {
			r.known.forget(kind)
			r.lookAgain(staleRetry)
			return
		}
		if err != nil {
			r.errs = append(r.errs, fmt.Errorf("count %s: %w", kind, err))
			r.keep(name)
			return
		}
		r.counts[kind] = total
	}
	number := *resource.NewQuantity(total.number, resource.DecimalSI)
	r.used[name], r.taken[name] = number, total.version
	before, ok := r.quota.Status.Used[name]
	if !ok || number.Cmp(before) >= 0 {
		return
	}
	// Both are upper bounds: what was counted with all recent charges, which may still be on their way, and the number without the
	// deletions. Recent charges include objects that were deleted before they were counted; a count that lowers nothing must not
	// swallow the events of these deletions.
	recent := r.recent[name]
	if recent.wait > 0 {
		r.lookAgain(recent.wait)
	}
	left := before.DeepCopy()
	left.Sub(*resource.NewQuantity(int64(recent.deletions), resource.DecimalSI))
	if number.Add(recent.amount); number.Cmp(left) < 0 {
		r.used[name] = number
	} else if left.Cmp(r.used[name]) > 0 {
		r.used[name], r.taken[name] = left, ""
	}
}

// keep leaves a number as it is.
func (r *round) keep(name corev1.ResourceName) {
	if before, ok := r.quota.Status.Used[name]; ok {
		r.used[name] = before
	}
}

func (r *round) lookAgain(after time.Duration) {
	if r.again == 0 || after < r.again {
		r.again = after
	}
}

// scoped tells whether the quota is about some objects only. All scopes tell pods and volumes apart; no other object is in one.
func scoped(quota *corev1.ResourceQuota) bool {
	return len(quota.Spec.Scopes) > 0 || quota.Spec.ScopeSelector != nil && len(quota.Spec.ScopeSelector.MatchExpressions) > 0
}
