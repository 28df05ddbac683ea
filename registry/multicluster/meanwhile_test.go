// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	hook = &meanwhile{KV: etcd.KV}
	etcd.KV = hook
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
	name  string
	reads chan func()
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
