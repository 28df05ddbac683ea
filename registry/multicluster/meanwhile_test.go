// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"

	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

const region = "region.example.com"

// TestDeletionWaitsForAFinalizerThatCameMeanwhile adds the finalizer when the server has seen that there is none.
func TestDeletionWaitsForAFinalizerThatCameMeanwhile(t *testing.T) {
	t.Parallel()
	for verb, remove := range map[string]func(ctx context.Context, c *clients, name string) error{
		"delete":           deletions["delete"],
		"deletecollection": deletions["deletecollection"],
		"background delete": func(ctx context.Context, c *clients, name string) error {
			background := metav1.DeletePropagationBackground
			return c.resource("clusterclaims").Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
		},
	} {
		for _, name := range []string{id, set, region} {
			t.Run(verb+" "+name, func(t *testing.T) {
				t.Parallel()
				slow, quick, hook := replicas(t)
				if name == set {
					quick.mustCreate(t, "clusterclaims", quick.claim(id, "one"))
				}
				quick.mustCreate(t, "clusterclaims", quick.claim(name, "first"))
				hook.once(func() {
					if _, err := quick.resource("clusterclaims").Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":["annex.test/hold"]}}`), metav1.PatchOptions{}); err != nil {
						t.Error(err)
					}
				})
				if err := remove(t.Context(), slow, name); err != nil {
					t.Fatal(err)
				}
				if left := quick.get(t, name); left.GetDeletionTimestamp() == nil {
					t.Errorf("the claim is not being deleted: %v", left)
				}
			})
		}
	}
}

// TestDeletionDoesNotWaitForAFinalizerThatIsGone deletes a claim whose finalizer is gone while the server's watch cache still has it.
func TestDeletionDoesNotWaitForAFinalizerThatIsGone(t *testing.T) {
	t.Parallel()
	for verb, remove := range map[string]func(ctx context.Context, c *clients, name string) error{
		"delete":           deletions["delete"],
		"deletecollection": deletions["deletecollection"],
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			slow, quick, hook := replicas(t)
			held := quick.claim(region, "first")
			held.SetFinalizers([]string{"annex.test/hold"})
			quick.mustCreate(t, "clusterclaims", held)
			err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
				_, err := slow.resource("clusterclaims").Get(ctx, region, metav1.GetOptions{ResourceVersion: "0"})
				return err == nil, nil
			})
			if err != nil {
				t.Fatalf("the watch cache does not have the claim: %v", err)
			}
			hook.holdEvents(t)
			quick.release(t, region)
			if err := remove(t.Context(), slow, region); err != nil {
				t.Fatal(err)
			}
			quick.mustCreate(t, "clusterclaims", quick.claim(region, "second"))
		})
	}
}

// TestCollectionsKeepToTheirLimit adds a finalizer to one of two claims that are deleted when the other one is gone.
func TestCollectionsKeepToTheirLimit(t *testing.T) {
	t.Parallel()
	second := &beforeDeletion{Handler: admission.NewHandler(admission.Delete), name: "b.example.com"}
	judged := options()
	judged.Admission = second
	c := claimsOn(t, resourcetest.Start(t, judged))
	for _, name := range []string{"a.example.com", "b.example.com", "c.example.com"} {
		c.mustCreate(t, "clusterclaims", c.claim(name, "first"))
	}
	second.do = func() {
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
			_, err := c.resource("clusterclaims").Get(ctx, "a.example.com", metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
		if err == nil {
			_, err = c.resource("clusterclaims").Patch(t.Context(), "b.example.com", types.MergePatchType, []byte(`{"metadata":{"finalizers":["annex.test/hold"]}}`), metav1.PatchOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	}
	content, err := c.rest.Delete().Resource("clusterclaims").Param("limit", "2").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	deleted := &unstructured.UnstructuredList{}
	if err := deleted.UnmarshalJSON(content); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, item := range deleted.Items {
		names = append(names, item.GetName())
	}
	if diff := cmp.Diff([]string{"a.example.com", "b.example.com"}, names); diff != "" {
		t.Errorf("returned as deleted (-want,+got):\n%s", diff)
	}
	if c.get(t, "b.example.com").GetDeletionTimestamp() == nil {
		t.Error("the second claim is not being deleted")
	}
	if _, err := c.resource("clusterclaims").Get(t.Context(), "c.example.com", metav1.GetOptions{}); err != nil {
		t.Errorf("the claim beyond the limit: got %v, want that it is there", err)
	}
}

// beforeDeletion does something once, before the deletion of a claim.
type beforeDeletion struct {
	*admission.Handler
	name string
	do   func()
	once sync.Once
}

// Validate implements admission.ValidationInterface.
func (b *beforeDeletion) Validate(_ context.Context, request admission.Attributes, _ admission.ObjectInterfaces) error {
	if claim, err := meta.Accessor(request.GetOldObject()); err == nil && claim.GetName() == b.name {
		b.once.Do(b.do)
	}
	return nil
}

// TestTheLastFinalizerTakesOnlyItsOwnObjectAlong replaces the object when the server is about to delete it for its last finalizer.
func TestTheLastFinalizerTakesOnlyItsOwnObjectAlong(t *testing.T) {
	t.Parallel()
	for _, name := range []string{id, region} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow, quick, hook := replicas(t)
			held := quick.claim(name, "first")
			held.SetFinalizers([]string{"annex.test/hold"})
			quick.mustCreate(t, "clusterclaims", held)
			if err := quick.delete(t, name); err != nil {
				t.Fatal(err)
			}
			hook.once(func() {
				quick.release(t, name)
				quick.mustCreate(t, "clusterclaims", quick.claim(name, "second"))
			})
			slow.release(t, name)
			if got := nested(quick.get(t, name), "spec", "value"); got != "second" {
				t.Errorf("the claim is %q, want the second one", got)
			}
		})
	}
}

// TestBackgroundDeletionDropsTheFinalizerOfTheCollector tells what does not wait.
func TestBackgroundDeletionDropsTheFinalizerOfTheCollector(t *testing.T) {
	t.Parallel()
	c := claimsOn(t, resourcetest.Start(t, options()))
	c.mustCreate(t, "clusterclaims", c.claim(region, "first"))
	if err := deletions["foreground delete"](t.Context(), c, region); err != nil {
		t.Fatal(err)
	}
	if c.get(t, region).GetDeletionTimestamp() == nil {
		t.Fatal("the claim does not wait for its dependents")
	}
	background := metav1.DeletePropagationBackground
	if err := c.resource("clusterclaims").Delete(t.Context(), region, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	c.mustCreate(t, "clusterclaims", c.claim(region, "second"))
}

// TestRefusalsAreAboutTheObjectAsItIs replaces the id, and joins a set, when the server has read the id and not yet the set.
func TestRefusalsAreAboutTheObjectAsItIs(t *testing.T) {
	t.Parallel()
	slow, quick, hook := replicas(t)
	held := quick.claim(id, "first")
	held.SetFinalizers([]string{"annex.test/hold"})
	quick.mustCreate(t, "clusterclaims", held)
	if err := quick.delete(t, id); err != nil {
		t.Fatal(err)
	}
	// The server reads the id anew after a change, and does not take what it remembers.
	hook.beforeReads(set, func() {
		if _, err := quick.resource("clusterclaims").Patch(t.Context(), id, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}, func() {
		quick.release(t, id)
		quick.mustCreate(t, "clusterclaims", quick.claim(id, "second"))
		quick.mustCreate(t, "clusterclaims", quick.claim(set, "fleet"))
	})
	slow.release(t, id)
	if left := len(hook.reads); left > 0 {
		t.Errorf("%d of the changes were not made meanwhile", left)
	}
	if got := nested(quick.get(t, id), "spec", "value"); got != "second" {
		t.Errorf("the id is %q, want the second one", got)
	}
}

// replicas are two servers on the same claims. What is given to the hook happens when the slow one is about to write.
func replicas(t *testing.T) (slow, quick *clients, hook *meanwhile) {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: resourcetest.Etcd().Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	hook = &meanwhile{KV: etcd.KV, events: heldEvents{Watcher: etcd.Watcher}}
	etcd.KV, etcd.Watcher = hook, &hook.events
	first := options()
	first.Etcd = etcd
	server := resourcetest.Start(t, first)
	second := options()
	second.Prefix = server.Prefix
	return claimsOn(t, server), claimsOn(t, resourcetest.Start(t, second)), hook
}

// meanwhile does something before a server reads or writes.
type meanwhile struct {
	clientv3.KV
	next atomic.Pointer[func()]
	// name is the claim before whose reads something is done.
	name   string
	reads  chan func()
	events heldEvents
}

// holdEvents keeps events from the server until the test ends.
func (m *meanwhile) holdEvents(t *testing.T) {
	m.events.mu.Lock()
	t.Cleanup(m.events.mu.Unlock)
}

// heldEvents passes events on while its lock is free.
type heldEvents struct {
	clientv3.Watcher
	mu sync.RWMutex
}

func (h *heldEvents) Watch(ctx context.Context, key string, options ...clientv3.OpOption) clientv3.WatchChan {
	events, passed := h.Watcher.Watch(ctx, key, options...), make(chan clientv3.WatchResponse)
	go func() {
		defer close(passed)
		for event := range events {
			h.mu.RLock()
			h.mu.RUnlock() //nolint:staticcheck // Waits until the lock is free.
			select {
			case passed <- event:
			case <-ctx.Done():
			}
		}
	}()
	return passed
}

// once is for the next transaction.
func (m *meanwhile) once(do func()) { m.next.Store(&do) }

// beforeReads is for the next reads of a claim, one after the other.
func (m *meanwhile) beforeReads(name string, all ...func()) {
	reads := make(chan func(), len(all))
	for _, do := range all {
		reads <- do
	}
	m.name, m.reads = name, reads
}

func (m *meanwhile) Txn(ctx context.Context) clientv3.Txn {
	if do := m.next.Swap(nil); do != nil {
		(*do)()
	}
	return m.KV.Txn(ctx)
}

func (m *meanwhile) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if m.name != "" && strings.HasSuffix(key, "/"+m.name) {
		select {
		case do := <-m.reads:
			do()
		default:
		}
	}
	return m.KV.Get(ctx, key, options...)
}
