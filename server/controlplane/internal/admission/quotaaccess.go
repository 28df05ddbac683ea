// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/lru"
)

const (
	// quotaPatience is how long charging a batch may take.
	quotaPatience = 10 * time.Second
	// quotasRemembered is of how many quotas it is known what the informer may not know yet.
	quotasRemembered = 1000
)

// quotaAccess is how quotas are read and written.
type quotaAccess struct {
	client typedcorev1.ResourceQuotasGetter
	lister listers.ResourceQuotaLister
	synced func() bool
	// remembered has quotas as they were when they were written, or found to be, by namespace and name.
	remembered *lru.Cache
}

func newQuotaAccess() *quotaAccess { return &quotaAccess{remembered: lru.New(quotasRemembered)} }

// known returns the quotas of a namespace as the informer has them; before it knows any, as they are stored.
func (a *quotaAccess) known(ctx context.Context, namespace string) ([]*corev1.ResourceQuota, error) {
	if a.synced() {
		return a.lister.ResourceQuotas(namespace).List(labels.Everything())
	}
	list, err := a.client.ResourceQuotas(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the quotas of %s: %w", namespace, err)
	}
	var all []*corev1.ResourceQuota
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

// latest returns the quotas of a namespace in the newest version that this server has heard of.
func (a *quotaAccess) latest(ctx context.Context, namespace string) ([]corev1.ResourceQuota, error) {
	all, err := a.known(ctx, namespace)
	if err != nil {
		return nil, err
	}
	quotas := make([]corev1.ResourceQuota, 0, len(all))
	for _, quota := range all {
		if last, ok := a.remembered.Get(quotaKey(quota)); ok {
			if older(quota, last.(*corev1.ResourceQuota)) {
				quota = last.(*corev1.ResourceQuota)
			} else {
				a.remembered.Remove(quotaKey(quota))
			}
		}
		quotas = append(quotas, *quota)
	}
	return quotas, nil
}

// older tells whether a quota was written before the remembered one.
func older(quota, remembered *corev1.ResourceQuota) bool {
	order, err := resourceversion.CompareResourceVersion(quota.ResourceVersion, remembered.ResourceVersion)
	return err == nil && order < 0 && quota.UID == remembered.UID
}

// write stores the status of a quota.
func (a *quotaAccess) write(ctx context.Context, quota *corev1.ResourceQuota) error {
	written, err := a.client.ResourceQuotas(quota.Namespace).UpdateStatus(ctx, quota, metav1.UpdateOptions{})
	if err == nil {
		a.remembered.Add(quotaKey(written), written)
	}
	return err
}

// current reads a quota. Another one by its name is a quota that is not found.
func (a *quotaAccess) current(ctx context.Context, quota *corev1.ResourceQuota) (*corev1.ResourceQuota, error) {
	current, err := a.client.ResourceQuotas(quota.Namespace).Get(ctx, quota.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if current.UID != quota.UID {
		return nil, apierrors.NewNotFound(corev1.Resource("resourcequotas"), quota.Name)
	}
	a.remembered.Add(quotaKey(current), current)
	return current, nil
}

func quotaKey(quota *corev1.ResourceQuota) string { return quota.Namespace + "/" + quota.Name }
