// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/report"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// bump is by how much revisions are raised when a snapshot is restored as etcd's documentation says.
const bump = 1_000_000

// restoredSnapshot goes back to what was stored some time ago, below clients that know what was written since. With the revisions raised
// and marked as compacted (`etcdutl snapshot restore --bump-revision --mark-compacted`), and without.
func restoredSnapshot(t *testing.T, store *etcd, s *server) {
	for _, tc := range []struct {
		name string
		bump int64
	}{{"revisions raised", bump}, {"revisions as they were", 0}} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRow(t)
			l := r.work(t, traffic.Options{}, s)
			l.WaitFor(t, times(50, 500))
			l.Verdict(t)
			saved := stored(t, s)
			snapshot := takeSnapshot(t, store)

			// What is written from now on is lost, and an informer knows of it. It is more than a server writes when it starts.
			for range 2000 {
				if _, err := store.client.Put(t.Context(), "/lost", ""); err != nil {
					t.Fatal(err)
				}
			}
			lost := createConfigMap(t, s, fmt.Sprintf("lost-%x", r.seed))
			informer := inform(t, s)
			informer.waitFor(t, lost.Name, true)
			s.kill()
			restore(t, store.members[0], snapshot, tc.bump)
			store.waitHealthy(t)
			s.start(t)
			if diff := cmp.Diff(saved, stored(t, s)); diff != "" {
				t.Errorf("what was saved, and what is there after it was restored (-want,+got):\n%s", diff)
			}
			wantOld(t, s.client(t), lost.ResourceVersion, tc.bump > 0)
			// The informer was told that it knows too much.
			informer.waitFor(t, lost.Name, false)
			again := createConfigMap(t, s, fmt.Sprintf("again-%x", r.seed))
			informer.waitFor(t, again.Name, true)
			if wentBack := versionOf(t, again) <= versionOf(t, lost); wentBack != (tc.bump == 0) {
				t.Errorf("an object created before had version %s, and one created now has %s", lost.ResourceVersion, again.ResourceVersion)
			}
			r.seed++
			after := r.work(t, traffic.Options{}, s)
			after.WaitFor(t, 50)
			after.Verdict(t)
		})
	}
}

// wantOld asks for a version that was lost. Whoever did must not be left in the belief that nothing has happened.
func wantOld(t *testing.T, client *kubernetes.Clientset, version string, raised bool) {
	t.Helper()
	ask := func() *rest.Request {
		return client.CoreV1().RESTClient().Get().Namespace("default").Resource("configmaps").Param("resourceVersion", version).MaxRetries(0)
	}
	watch, err := ask().Param("watch", "true").Watch(t.Context())
	if err == nil {
		select {
		case event := <-watch.ResultChan():
			err = apierrors.FromObject(event.Object)
		case <-time.After(10 * time.Second):
			err = errors.New("nothing is told")
		}
		watch.Stop()
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch from a version that was lost: %v, want 410", err)
	}
	if raised {
		return
	}
	err = ask().Param("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan)).Do(t.Context()).Error()
	if _, retry := apierrors.SuggestsClientDelay(err); !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || !retry {
		t.Errorf("a list from a version that was lost: %v, want that it is too large, and when to try again", err)
	}
}

// informer is one of client-go. In the quick form there is none: after errors it waits for up to a minute.
type informer struct{ cache.SharedIndexInformer }

func inform(t *testing.T, s *server) informer {
	t.Helper()
	if !report.Full() {
		return informer{}
	}
	i := informer{informers.NewSharedInformerFactory(s.client(t), 0).Core().V1().ConfigMaps().Informer()}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.RunWithContext(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return i
}

// waitFor waits until it knows an object, or does not any longer.
func (i informer) waitFor(t *testing.T, name string, want bool) {
	t.Helper()
	if i.SharedIndexInformer == nil {
		return
	}
	poll.Eventually(t, 2*recovery, "an informer is not up to date", func(context.Context) error {
		if _, known, err := i.GetStore().GetByKey("default/" + name); err != nil || known != want {
			return fmt.Errorf("it knows %s: %t, %w", name, known, err)
		}
		return nil
	})
}

func createConfigMap(t *testing.T, s *server, name string) *corev1.ConfigMap {
	t.Helper()
	created, err := s.client(t).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func versionOf(t *testing.T, object metav1.Object) int64 {
	t.Helper()
	version, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// stored are the config maps of clients, by name.
func stored(t *testing.T, s *server) map[string]string {
	t.Helper()
	list, err := s.client(t).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, item := range list.Items {
		all[item.Name] = item.Data["value"]
	}
	return all
}

// takeSnapshot returns a file with what `etcdctl snapshot save` writes.
func takeSnapshot(t *testing.T, store *etcd) string {
	t.Helper()
	from, err := store.client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	content, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "snapshot.db")
	// The checksum at the end is not part of the database.
	if err := os.WriteFile(path, content[:len(content)-len(content)%4096], 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// restore puts a snapshot in the place of a member's data, as etcdutl does: it forgets the member and its log, and raises revisions.
func restore(t *testing.T, m *etcdMember, snapshot string, by int64) {
	t.Helper()
	m.kill()
	dir := filepath.Join(filepath.Dir(m.log), m.name)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "member", "snap", "db")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	store := backend.NewDefaultBackend(zap.NewNop(), path)
	if err := schema.NewMembershipBackend(zap.NewNop(), store).TrimMembershipFromBackend(); err != nil {
		t.Fatal(err)
	}
	tx := store.BatchTx()
	tx.LockOutsideApply()
	tx.UnsafeDelete(schema.Meta, schema.MetaConsistentIndexKeyName)
	tx.UnsafeDelete(schema.Meta, schema.MetaTermKeyName)
	if by > 0 {
		var last mvcc.Revision
		err = tx.UnsafeForEach(schema.Key, func(key, _ []byte) error {
			if revision := mvcc.BytesToRev(key); revision.GreaterThan(last) {
				last = revision
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		last.Main += by
		tx.UnsafePut(schema.Key, mvcc.RevToBytes(last, mvcc.NewRevBytes()), nil)
		mvcc.UnsafeSetScheduledCompact(tx, last.Main)
	}
	tx.Unlock()
	store.ForceCommit()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	m.start(t)
}
