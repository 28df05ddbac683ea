// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	hub "github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

// TestPairRulesHoldAcrossReplicas races joining a set against changing and deleting the id on two replicas, and then
// reads from etcd's history that no revision ever had a set without its id, or another id during a membership.
func TestPairRulesHoldAcrossReplicas(t *testing.T) {
	t.Parallel()
	const rounds = 200
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	first := resourcetest.Start(t, options())
	second := options()
	second.Prefix = first.Prefix
	replicas := []*clients{claimsOn(t, first), claimsOn(t, resourcetest.Start(t, second))}
	start, err := first.Etcd.Get(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}

	joined, refused := 0, 0
	for round := range rounds {
		a, b := replicas[round%2], replicas[(round+1)%2]
		ensureAlone(t, a, fmt.Sprintf("id-%d", round))
		attack := []func() error{
			func() error { return deletions["delete"](t.Context(), b, id) },
			func() error { return deletions["deletecollection"](t.Context(), b, id) },
			func() error { return valueWrites["merge patch"](t.Context(), b, id, "changed") },
			func() error { return valueWrites["forced apply"](t.Context(), b, id, "changed") },
		}[random.IntN(4)]
		joinFirst := time.Duration(random.IntN(1500)) * time.Microsecond
		var join, change error
		var racing sync.WaitGroup
		racing.Go(func() { join = a.create(t, "clusterclaims", a.claim(set, "fleet")) })
		racing.Go(func() {
			pause(t.Context(), joinFirst)
			change = attack()
		})
		racing.Wait()
		switch {
		case join == nil:
			joined++
		case isInvalid(join), apierrors.IsConflict(join):
		default:
			t.Fatalf("round %d: joining: %v", round, join)
		}
		switch {
		case change == nil:
		case isInvalid(change), apierrors.IsForbidden(change), apierrors.IsConflict(change):
			refused++
		default:
			t.Fatalf("round %d: changing or deleting the id: %v", round, change)
		}
	}
	t.Logf("%d rounds: joined %d times, refused %d changes of the id", rounds, joined, refused)
	if joined == 0 || refused == 0 {
		t.Errorf("the race was one-sided: joined %d times, refused %d changes", joined, refused)
	}
	checkHistory(t, first, start.Header.Revision)
}

// pause waits a random time between two racing requests; the outcome does not depend on it.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ensureAlone leaves the cluster with the id and without a set.
func ensureAlone(t *testing.T, c *clients, value string) {
	t.Helper()
	for _, name := range []string{set, id} {
		if err := c.delete(t, name); err != nil && !apierrors.IsNotFound(err) {
			t.Fatalf("deleting %s: %v", name, err)
		}
	}
	c.mustCreate(t, "clusterclaims", c.claim(id, value))
}

// checkHistory replays every revision of both claims.
func checkHistory(t *testing.T, server *resourcetest.Server, after int64) {
	t.Helper()
	prefix := server.Prefix + "/" + hub.GroupName + "/clusterclaims/"
	o := options()
	current := map[string]*hub.ClusterClaim{}
	var memberAs string
	revisions := 0
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	watch := server.Etcd.Watch(ctx, server.Prefix+"/", clientv3.WithPrefix(), clientv3.WithRev(after+1))
	// A last write of our own, outside the claims, tells when the whole history has been read.
	marker, err := server.Etcd.Put(t.Context(), server.Prefix+"/marker", "end")
	if err != nil {
		t.Fatal(err)
	}
	for response := range watch {
		if err := response.Err(); err != nil {
			t.Fatal(err)
		}
		for _, event := range response.Events {
			if event.Kv.ModRevision == marker.Header.Revision {
				if revisions == 0 {
					t.Errorf("no history after revision %d", after)
				}
				return
			}
			name, isClaim := strings.CutPrefix(string(event.Kv.Key), prefix)
			if !isClaim {
				continue
			}
			revisions++
			if event.Type == clientv3.EventTypeDelete {
				delete(current, name)
			} else {
				current[name] = decode(t, o.Codecs.UniversalDecoder(hub.SchemeGroupVersion), event.Kv.Value)
			}
			if current[set] == nil {
				memberAs = ""
				continue
			}
			if current[id] == nil || current[id].DeletionTimestamp != nil {
				t.Fatalf("revision %d: clusterset.k8s.io exists without id.k8s.io", event.Kv.ModRevision)
			}
			if memberAs == "" {
				memberAs = current[id].Spec.Value
			}
			if memberAs != current[id].Spec.Value {
				t.Fatalf("revision %d: the id changed from %q to %q during a membership", event.Kv.ModRevision, memberAs, current[id].Spec.Value)
			}
		}
	}
	t.Fatal("etcd's watch ended before the marker")
}

func decode(t *testing.T, decoder runtime.Decoder, data []byte) *hub.ClusterClaim {
	t.Helper()
	obj, err := runtime.Decode(decoder, data)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*hub.ClusterClaim)
}
