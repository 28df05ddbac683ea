// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"

	wire "github.com/kube-annex/annex/apis/fencing"
)

// TestNoLateWriteIsEverCommitted has a Lease change hands while the leader writes as fast as it can and never stops by itself,
// as one does that was paused and woken. Then etcd's history must not hold a write of a term after the revision that ended it.
func TestNoLateWriteIsEverCommitted(t *testing.T) {
	t.Parallel()
	const rounds = 40
	namespace := "race-" + string(uuid.NewUUID()) // etcd's history is that of all runs
	w := startWorld(t, namespace, inTransaction)
	var lease *coordinationv1.Lease
	var term wire.Term
	var writers sync.WaitGroup
	for round := range rounds {
		// The term before this one ends here, in the middle of its writes.
		lease, term = w.lead(lease, fmt.Sprintf("leader-%d", round))
		name := fmt.Sprintf("leader-%d", round)
		client := w.as(term.String())
		started := make(chan struct{})
		for n, write := range []func(ctx context.Context, client dynamic.ResourceInterface, name string, n int) error{patchAgain, createAndDelete} {
			writers.Go(func() {
				for i := 0; ; i++ {
					err := write(t.Context(), client, fmt.Sprintf("%s.%d", name, n), i)
					if wire.IsTermOver(err) {
						return
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					if i == 1 && n == 0 {
						close(started)
					}
				}
			})
		}
		select {
		case <-started:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s did not get to write", name)
		}
	}
	w.lead(lease, "nobody")
	ended := make(chan struct{})
	go func() {
		writers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("leaders whose terms are over still write")
	}
	if writes := wantInTerms(t, w, "/annex.io/fences/"+namespace+"/leader", rounds+1); writes < 2*rounds {
		t.Errorf("the leaders made %d writes only; the race did not happen", writes)
	}
}

func patchAgain(ctx context.Context, client dynamic.ResourceInterface, name string, n int) error {
	if n == 0 {
		_, err := client.Create(ctx, balloon(name, "1"), metav1.CreateOptions{})
		return err
	}
	_, err := client.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, n), metav1.PatchOptions{})
	return err
}

func createAndDelete(ctx context.Context, client dynamic.ResourceInterface, name string, _ int) error {
	if _, err := client.Create(ctx, balloon(name, "1"), metav1.CreateOptions{}); err != nil {
		return err
	}
	return client.Delete(ctx, name, metav1.DeleteOptions{})
}

// wantInTerms goes through etcd's history in order and returns how many writes of leaders it holds. Their objects are named
// <holder>.<n>.
func wantInTerms(t *testing.T, w *world, fenceKey string, terms int) int {
	t.Helper()
	objects := w.balloons.Prefix + "/node.k8s.io/nodeballoons/"
	end := w.balloons.Prefix + "/end-of-race"
	if _, err := w.balloons.Etcd.Put(t.Context(), end, ""); err != nil {
		t.Fatal(err)
	}
	// One watch of all keys has all events of a revision together.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	history := w.balloons.Etcd.Watch(ctx, "/", clientv3.WithPrefix(), clientv3.WithRev(1))
	holder, seen, writes := "", 0, 0
	deadline := time.After(30 * time.Second)
	for {
		select {
		case response := <-history:
			if err := response.Err(); err != nil {
				t.Fatal(err)
			}
			for _, event := range response.Events {
				key := string(event.Kv.Key)
				switch {
				case key == end:
					if seen != terms {
						t.Errorf("the history has %d terms, want %d", seen, terms)
					}
					return writes
				case key == fenceKey:
					holder = strings.SplitN(string(event.Kv.Value), ";", 3)[2]
					seen++
				case strings.HasPrefix(key, objects):
					writes++
					if writer := strings.TrimSuffix(path.Base(key), path.Ext(key)); writer != holder {
						t.Errorf("revision %d: %s wrote %s in the term of %s", event.Kv.ModRevision, writer, path.Base(key), holder)
					}
				}
			}
		case <-deadline:
			t.Fatalf("etcd's history was not read to its end; %d of %d terms were seen", seen, terms)
		}
	}
}
