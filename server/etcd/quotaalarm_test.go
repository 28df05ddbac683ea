// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const testQuota = minQuota

// write puts random bytes, which nothing can make smaller, at the key. It reports whether etcd had room for them.
func write(t *testing.T, b *Backend, key string, revision int64, size int) (int64, bool) {
	t.Helper()
	content := make([]byte, size)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	response, err := b.Client.Kubernetes.OptimisticPut(t.Context(), key, content, revision, kubernetes.PutOptions{})
	if err == nil && response.Succeeded {
		return response.Revision, true
	}
	if err == nil {
		// The write before was refused and done: it raised the alarm.
		found, err := b.Client.KV.Get(t.Context(), key)
		if err != nil || len(found.Kvs) != 1 || found.Kvs[0].ModRevision <= revision {
			t.Fatalf("%s is not at revision %d: %v, %v", key, revision, found, err)
		}
		return found.Kvs[0].ModRevision, false
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Code != http.StatusInsufficientStorage {
		t.Fatalf("writing %s: got %v, want a status with code 507", key, err)
	}
	wantError(t, err, "the store is full", "delete what is not needed", "--etcd-quota-bytes")
	return revision, false
}

func TestOverwritingFillsTheStoreAndItRecovers(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir(), func(o *Options) { o.QuotaBytes = testQuota })
	kept := map[string][]byte{}
	for i := range 20 {
		key := fmt.Sprint("/kept/", i)
		kept[key] = bytes.Repeat([]byte{byte('a' + i)}, 10_000)
		if err := put(t.Context(), b, key, string(kept[key])); err != nil {
			t.Fatal(err)
		}
	}
	// Four times the quota of dead revisions: the alarm rises again and again.
	var revision, written int64
	refused := 0
	const size = 256 << 10
	for written < 4*testQuota {
		eventually(t, func() string {
			var ok bool
			if revision, ok = write(t, b, "/hot", revision, size); ok {
				return ""
			}
			refused++
			return fmt.Sprintf("after %d bytes the store does not take writes again; health: %v", written, b.SpaceCheck().Check(nil))
		})
		written += size
	}
	if refused == 0 {
		t.Error("no write was ever refused, so the test tests nothing")
	}
	t.Logf("%d refusals in %d MiB", refused, written>>20)
	for key, want := range kept {
		if got := value(t, b, key); got != string(want) {
			t.Errorf("%s has %d bytes, want %d of %q", key, len(got), len(want), want[:1])
		}
	}
	response, err := b.Client.KV.Get(t.Context(), "/hot")
	if err != nil || len(response.Kvs) != 1 || response.Kvs[0].ModRevision != revision {
		t.Errorf("the last acknowledged write was revision %d; found %v, %v", revision, response, err)
	}
	eventually(t, func() string {
		if err := b.SpaceCheck().Check(nil); err != nil {
			return err.Error()
		}
		return ""
	})
}

func TestLiveDataFillsTheStoreAndDeletesFreeIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startEmbedded(t, dir, func(o *Options) { o.QuotaBytes = testQuota })
	const size = 256 << 10
	revisions := map[string]int64{}
	// The first alarm is lifted, since compaction frees a little; in the end it stays.
	for i := 0; b.SpaceCheck().Check(nil) == nil; i++ {
		if i > 4*testQuota/size {
			t.Fatalf("%d writes of %d bytes did not fill the store", i, size)
		}
		key := fmt.Sprint("/live/", i)
		if revision, ok := write(t, b, key, 0, size); ok {
			revisions[key] = revision
		}
		// etcd measures its size at each commit, ten times a second; fast writers would go far beyond the quota.
		b.quotaAlarm.server.Backend().ForceCommit()
	}
	stays := func(b *Backend) {
		t.Helper()
		eventually(t, func() string {
			if err := b.SpaceCheck().Check(nil); err == nil || !strings.Contains(err.Error(), "etcd is full: live data takes") {
				return fmt.Sprintf("the health check says %v", err)
			}
			return ""
		})
		if _, ok := write(t, b, "/one-more", 0, size); ok {
			t.Error("a full store took a write")
		}
		if err := b.HealthCheck().Check(nil); err != nil {
			t.Errorf("the check for livez and readyz fails for a full store: %v", err)
		}
	}
	stays(b)
	// The alarm outlives the process.
	b.Stop()
	b = startEmbedded(t, dir, func(o *Options) { o.QuotaBytes = testQuota })
	stays(b)

	deleted := 0
	for key, revision := range revisions {
		if deleted*4 >= len(revisions) {
			break
		}
		response, err := b.Client.Kubernetes.OptimisticDelete(t.Context(), key, revision, kubernetes.DeleteOptions{})
		if err != nil || !response.Succeeded {
			t.Fatalf("deleting under the alarm: %v, %v", response, err)
		}
		delete(revisions, key)
		deleted++
	}
	eventually(t, func() string {
		if _, ok := write(t, b, "/one-more", 0, size); !ok {
			return fmt.Sprintf("no write after %d deletes; health: %v", deleted, b.SpaceCheck().Check(nil))
		}
		return ""
	})
	for key := range revisions {
		if got := len(value(t, b, key)); got != size {
			t.Errorf("%s has %d bytes, want %d", key, got, size)
		}
	}
	eventually(t, func() string {
		if err := b.SpaceCheck().Check(nil); err != nil {
			return err.Error()
		}
		return ""
	})
}

func TestLargerQuotaLiftsTheAlarm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startEmbedded(t, dir)
	server := b.quotaAlarm.server
	if _, err := server.Alarm(t.Context(), &etcdserverpb.AlarmRequest{
		MemberID: uint64(server.MemberID()), Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE,
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if _, ok := write(t, b, "/key", 0, 10); !ok {
			return "writes are refused"
		}
		return ""
	})
}

func TestCompactionRevisionIsKnown(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	if b.compactor == nil {
		t.Fatal("nothing compacts")
	}
	// A store asks the compactor what is gone; it learns it from the key that all compactors of a cluster share.
	if _, err := b.Client.Put(t.Context(), "compact_rev_key", "1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if got := b.compactor.CompactRevision(); got != 1 {
			return fmt.Sprintf("the compactor knows of revision %d, want 1", got)
		}
		return ""
	})
}

func TestHealthTellsOfAnEtcdThatIsGone(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	check := b.HealthCheck()
	if err := check.Check(nil); err != nil || check.Name() != "etcd" {
		t.Fatalf("%s: %v", check.Name(), err)
	}
	b.quotaAlarm.server.HardStop()
	eventually(t, func() string {
		err := check.Check(nil)
		if err == nil || !strings.Contains(err.Error(), "reading from etcd") {
			return fmt.Sprintf("the check says %v", err)
		}
		return ""
	})
}

func TestHealthAsksOnceForMany(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	counted := &countingKV{KV: b.Client.KV}
	b.Client.KV = counted
	for range 100 {
		if err := b.HealthCheck().Check(nil); err != nil {
			t.Fatal(err)
		}
	}
	if counted.gets == 0 || counted.gets > 20 {
		t.Errorf("100 checks asked etcd %d times, want a few", counted.gets)
	}
}

// countingKV counts reads; the health check makes one at a time.
type countingKV struct {
	clientv3.KV
	gets int
}

func (kv *countingKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	kv.gets++
	return kv.KV.Get(ctx, key, opts...)
}
