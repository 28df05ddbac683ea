// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	resourcequotaapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/klog/v2"

	quotacontroller "github.com/kube-annex/annex/server/controlplane/internal/controllers/resourcequota"
)

// quotaJudge judges requests by all quotas of their namespace, and charges them.
type quotaJudge struct {
	access  *quotaAccess
	limited []resourcequotaapi.LimitedResource
}

// evaluatorFor counts objects of a kind.
func evaluatorFor(kind schema.GroupResource) quotav1.Evaluator {
	return generic.NewObjectCountEvaluator(kind, nil, quotacontroller.ShortNames()[kind])
}

// judge sets the errors of those that are refused.
func (j quotaJudge) judge(ctx context.Context, namespace string, batch []*charge) {
	all, err := j.access.latest(ctx, namespace)
	if err != nil {
		for _, one := range batch {
			one.err = err
		}
		return
	}
	left := all
	for _, one := range batch {
		next, err := resourcequota.CheckRequest(left, one, one.evaluator, j.limited)
		if one.err = err; err != nil || one.IsDryRun() {
			continue
		}
		for i := range next {
			if used := quotav1.RemoveZeros(quotav1.Subtract(next[i].Status.Used, left[i].Status.Used)); len(used) > 0 {
				one.of[next[i].Name] = used
			}
		}
		left = next
	}
	for i := range all {
		j.charge(ctx, &all[i], batch)
	}
	for i := range all {
		j.refund(ctx, &all[i], batch)
	}
}

// charge writes into one quota what those use of it that no other quota has refused. Where somebody else has written meanwhile, they are
// judged again by what is left.
func (j quotaJudge) charge(ctx context.Context, original *corev1.ResourceQuota, batch []*charge) {
	next := original.DeepCopy()
	for _, one := range batch {
		if one.err != nil {
			// An earlier quota has refused the request, so there is nothing to refund here.
			delete(one.of, original.Name)
			continue
		}
		next.Status.Used = quotav1.Add(next.Status.Used, one.of[original.Name])
	}
	for err := error(nil); !quotav1.Equals(original.Status.Used, next.Status.Used); {
		if err = j.access.write(ctx, next); err == nil || apierrors.IsNotFound(err) {
			return
		}
		if apierrors.IsConflict(err) {
			original, err = j.access.current(ctx, next)
		}
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			fail(batch, next.Name, fmt.Errorf("charge the quota %s: %w", next.Name, err))
			return
		}
		next = recharged(original, batch)
	}
}

// recharged returns the quota with the charges that still fit in. The others are refused.
func recharged(quota *corev1.ResourceQuota, batch []*charge) *corev1.ResourceQuota {
	left := []corev1.ResourceQuota{*quota.DeepCopy()}
	for _, one := range batch {
		if one.err != nil || one.of[quota.Name] == nil {
			continue
		}
		next, err := resourcequota.CheckRequest(left, one, one.evaluator, nil)
		if err != nil {
			one.err = err
			delete(one.of, quota.Name)
			continue
		}
		left = next
	}
	return &left[0]
}

// fail refuses those that the quota concerns, and that have not been charged for it.
func fail(batch []*charge, quota string, err error) {
	for _, one := range batch {
		if one.err == nil && one.of[quota] != nil {
			one.err = err
			delete(one.of, quota)
		}
	}
}

// refund takes off a quota what those were charged that another one has refused after that. If it cannot, the controller finds out later.
func (j quotaJudge) refund(ctx context.Context, quota *corev1.ResourceQuota, batch []*charge) {
	var back corev1.ResourceList
	for _, one := range batch {
		if one.err != nil {
			back = quotav1.Add(back, one.of[quota.Name])
		}
	}
	for err := error(nil); len(back) > 0; {
		if quota, err = j.access.current(ctx, quota); err == nil {
			next := quota.DeepCopy()
			next.Status.Used = quotav1.SubtractWithNonNegativeResult(next.Status.Used, back)
			err = j.access.write(ctx, next)
		}
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).V(2).Info("A quota stays charged for what was refused until it is counted again", "reason", err.Error())
		}
		return
	}
}
