// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kube-annex/annex/test/framework/poll"
)

// TestManyDependents has one owner's objects collected by `annex up`, in the background and in the foreground.
func TestManyDependents(t *testing.T) {
	t.Parallel()
	w := startUp(t)
	q := newRequests(w, 1)
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		name := "owner-" + strings.ToLower(string(policy))
		owner, _, err := q.create(t.Context(), configMaps, described(configMaps, "ConfigMap", metav1.NamespaceDefault, name, nil))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := w.own(t.Context(), owner, *dependentsFlag); err != nil {
			t.Fatal(err)
		}
		created := time.Since(began)
		began = time.Now()
		if err := q.remove(t.Context(), configMaps, owner, policy); err != nil {
			t.Fatal(err)
		}
		if err := poll.Until(t.Context(), 2*patience, func(ctx context.Context) error { return w.without(ctx, owner) }); err != nil {
			t.Fatalf("%s: %v", policy, err)
		}
		took := time.Since(began)
		t.Logf("%s: %d dependents were made in %s and collected in %s", policy, *dependentsFlag, created.Round(time.Millisecond), took.Round(time.Millisecond))
	}
}

// own makes so many objects of one owner.
func (w *world) own(ctx context.Context, owner *unstructured.Unstructured, number int) error {
	const writers = 20
	blocking := true
	reference := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: &blocking}
	var writing sync.WaitGroup
	errs := make([]error, writers)
	for writer := range writers {
		own := newRequests(w, uint64(writer))
		writing.Go(func() {
			for i := writer; i < number && errs[writer] == nil; i += writers {
				child := described(secrets, "Secret", owner.GetNamespace(), fmt.Sprintf("%s-%d", owner.GetName(), i), nil, reference)
				_, _, errs[writer] = own.create(ctx, secrets, child)
			}
		})
	}
	writing.Wait()
	return errors.Join(errs...)
}

// without is nil when the owner and all its dependents are gone.
func (w *world) without(ctx context.Context, owner *unstructured.Unstructured) error {
	for _, key := range []string{"core/secrets/", "core/configmaps/"} {
		left, err := w.etcd.Get(ctx, objectKeys+key+owner.GetNamespace()+"/"+owner.GetName(), clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		if left.Count > 0 {
			return fmt.Errorf("%d objects are left at %s", left.Count, key)
		}
	}
	return nil
}
