// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// collect deletes an object that no owner holds, and takes references from one that some owner holds.
func (c *Controller) collect(ctx context.Context, m *monitor, obj *meta) error {
	held := false
	// useless are references to owners that are gone, or wait for the object.
	useless, waiting := sets.New[types.UID](), false
	for _, ref := range obj.OwnerReferences {
		owner, err := c.owner(ctx, ref, obj.Namespace)
		switch {
		case errors.Is(err, errMisplaced):
			klog.FromContext(ctx).Info("An object that is in no namespace has an owner in one, and is never collected; change its ownerReferences",
				"resource", m.resource, "object", obj.Name, "owner", ref.Name)
			return nil
		case err != nil:
			return err
		case owner == nil:
			useless.Insert(ref.UID)
		case waits(owner):
			useless.Insert(ref.UID)
			waiting = true
		default:
			held = true
		}
	}
	switch {
	case held && useless.Len() == 0:
		return nil
	case held:
		return c.setOwners(ctx, m, obj, func(refs []metav1.OwnerReference) []metav1.OwnerReference { return relieved(refs, useless) })
	}
	policy := metav1.DeletePropagationBackground
	switch {
	case has(obj, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case has(obj, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	if dependents := c.dependents(obj.UID); waiting && len(dependents) > 0 {
		policy = metav1.DeletePropagationForeground
		if err := c.breakCycle(ctx, m, obj, dependents); err != nil {
			return err
		}
		// What is decided upon has changed; the next event brings it here again.
		if current := m.get(obj.Namespace, obj.Name); current == nil || current.ResourceVersion != obj.ResourceVersion {
			return nil
		}
	}
	err := m.objects(obj.Namespace).Delete(ctx, obj.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy,
		Preconditions:     &metav1.Preconditions{UID: &obj.UID, ResourceVersion: &obj.ResourceVersion},
	})
	if isGone(err, obj.Name) {
		return nil
	}
	return err
}

// relieved takes useless references from an object that some owner holds. One that would be left with none has lost that owner since
// then: it stays as it is, for nobody would collect it afterwards, and is decided upon once more when its change is heard of.
func relieved(refs []metav1.OwnerReference, useless sets.Set[types.UID]) []metav1.OwnerReference {
	if kept := without(refs, useless); len(kept) > 0 {
		return kept
	}
	return refs
}

func without(refs []metav1.OwnerReference, uids sets.Set[types.UID]) []metav1.OwnerReference {
	kept := []metav1.OwnerReference{}
	for _, ref := range refs {
		if !uids.Has(ref.UID) {
			kept = append(kept, ref)
		}
	}
	return kept
}

// breakCycle lets the owners of an object go without it where one of its dependents waits for its own dependents, which the object may
// be among.
func (c *Controller) breakCycle(ctx context.Context, m *monitor, obj *meta, dependents []dependent) error {
	for _, d := range dependents {
		if !waits(d.meta) {
			continue
		}
		return c.setOwners(ctx, m, obj, func(refs []metav1.OwnerReference) []metav1.OwnerReference {
			unblocking := make([]metav1.OwnerReference, 0, len(refs))
			for _, ref := range refs {
				if blocks(ref) {
					ref.BlockOwnerDeletion = ptr.To(false)
				}
				unblocking = append(unblocking, ref)
			}
			return unblocking
		})
	}
	return nil
}
