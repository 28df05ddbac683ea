// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// attempts is how often a write is tried with what is stored now.
const attempts = 5

// setOwners changes the references of an object. Nothing is done about one that is gone.
func (c *Controller) setOwners(ctx context.Context, m *monitor, obj *meta, change func([]metav1.OwnerReference) []metav1.OwnerReference) error {
	return c.patch(ctx, m, obj, func(current *meta) map[string]any {
		changed := change(current.OwnerReferences)
		if equality.Semantic.DeepEqual(changed, current.OwnerReferences) || len(changed) == 0 && len(current.OwnerReferences) == 0 {
			return nil
		}
		return map[string]any{"ownerReferences": changed}
	})
}

func (c *Controller) removeFinalizer(ctx context.Context, m *monitor, obj *meta, finalizer string) error {
	return c.patch(ctx, m, obj, func(current *meta) map[string]any {
		if !has(current, finalizer) {
			return nil
		}
		return map[string]any{"finalizers": slices.DeleteFunc(slices.Clone(current.Finalizers), func(f string) bool { return f == finalizer })}
	})
}

// patch writes metadata that is made from what is stored.
func (c *Controller) patch(ctx context.Context, m *monitor, current *meta, change func(*meta) map[string]any) error {
	objects := m.objects(current.Namespace)
	for range attempts {
		fields := change(current)
		if fields == nil {
			return nil
		}
		fields["uid"], fields["resourceVersion"] = current.UID, current.ResourceVersion
		body, err := json.Marshal(map[string]any{"metadata": fields})
		if err != nil {
			return fmt.Errorf("encode a patch: %w", err)
		}
		_, err = objects.Patch(ctx, current.Name, types.MergePatchType, body, metav1.PatchOptions{})
		if err == nil || isGone(err, current.Name) {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		stored, err := objects.Get(ctx, current.Name, metav1.GetOptions{})
		if isGone(err, current.Name) || err == nil && stored.UID != current.UID {
			return nil
		}
		if err != nil {
			return err
		}
		current = stored
	}
	return errors.New("it changes all the time")
}
