// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// TestOneMember has a control plane on an etcd that others run.
func TestOneMember(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	store := startEtcd(t, dir, 1, "--unsafe-no-fsync", fmt.Sprintf("--quota-backend-bytes=%d", smallest))
	s := newControlPlanes(t, dir, 1, store.servers())[0]
	s.start(t)
	t.Run("no space", func(t *testing.T) { noSpaceOutside(t, store, s) })
	t.Run("a snapshot is restored", func(t *testing.T) { restoredSnapshot(t, store, s) })
}

// noSpaceOutside fills an etcd that the server must not tidy up. People do what the error says.
func noSpaceOutside(t *testing.T, store *etcd, s *server) {
	r := newRow(t)
	for range times(1, 5) {
		// Each round works on other objects.
		r.seed++
		l := r.work(t, traffic.Options{Clients: 4, Keys: 4, Padding: 100_000}, s)
		poll.Eventually(t, 2*startTimeout, "the store was not full", func(context.Context) error {
			failed := strings.Join(l.Failed(), "\n")
			if !strings.Contains(failed, "the store is full: etcd has reached its space quota and takes no more writes") || !strings.Contains(failed, "`etcdctl alarm disarm`") {
				return errors.New("nobody was told")
			}
			return nil
		})
		if err := s.client(t).RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error(); err != nil {
			t.Errorf("a full store makes the server unready, and reads and deletes with it: %v", err)
		}
		if _, err := s.client(t).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("a list from a full store: %v", err)
		}
		now, err := store.client.Get(t.Context(), "/")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.client.Compact(t.Context(), now.Header.Revision); err != nil {
			t.Fatal(err)
		}
		if _, err := store.client.Defragment(t.Context(), store.members[0].url); err != nil {
			t.Fatal(err)
		}
		alarms, err := store.client.AlarmList(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, alarm := range alarms.Alarms {
			if _, err := store.client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: alarm.Alarm}); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("compacted, defragmented and disarmed; clients recovered after %s", l.Recovered(t, recovery))
		l.Verdict(t)
	}
}
