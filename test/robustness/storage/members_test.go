// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"strings"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/report"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// TestMembers has members of etcd go and come back, below two control planes.
func TestMembers(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	store := startEtcd(t, dir, 3, "--unsafe-no-fsync")
	replicas := newControlPlanes(t, dir, 2, store.servers())
	for _, s := range replicas {
		s.launch(t)
	}
	for _, s := range replicas {
		s.waitReady(t)
	}
	for _, tc := range []struct {
		name string
		run  func(*testing.T, row, *etcd, *traffic.Load)
	}{
		{"a member is killed", memberKilled},
		{"the leader is killed", leaderKilled},
		{"the leader is isolated", leaderIsolated},
		{"the quorum is lost", quorumLost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRow(t)
			// Members wait some seven seconds for a leader before they say that there is none. Quick clients do not.
			l := r.work(t, traffic.Options{RequestTimeout: time.Duration(times(2, 10)) * time.Second}, replicas...)
			l.WaitFor(t, 50)
			tc.run(t, r, store, l)
			l.Recovered(t, recovery)
			l.Verdict(t)
		})
	}
}

// memberKilled kills a member that does not lead. Two of three are a quorum.
func memberKilled(t *testing.T, r row, store *etcd, l *traffic.Load) {
	for range times(1, 20) {
		m := store.members[(store.leader(t, -1)+1+r.random.IntN(2))%3]
		m.kill()
		t.Logf("%s killed; clients recovered after %s", m.name, l.Recovered(t, recovery))
		m.start(t)
		store.waitHealthy(t)
	}
}

// leaderKilled has the others choose a new leader.
func leaderKilled(t *testing.T, _ row, store *etcd, l *traffic.Load) {
	for range times(1, 20) {
		m := store.members[store.leader(t, -1)]
		m.kill()
		t.Logf("%s killed; clients recovered after %s", m.name, l.Recovered(t, recovery))
		m.start(t)
		store.waitHealthy(t)
	}
}

// leaderIsolated cuts the leader off from the other members, and not from its clients.
func leaderIsolated(t *testing.T, _ row, store *etcd, l *traffic.Load) {
	for range times(1, 20) {
		leader := store.leader(t, -1)
		store.isolate(leader)
		next := store.leader(t, leader)
		t.Logf("%s cut off, and %s leads; clients recovered after %s", store.members[leader].name, store.members[next].name, l.Recovered(t, recovery))
		store.heal(leader)
		store.waitHealthy(t)
	}
}

// quorumLost leaves one member of three. Clients wait, and are told after some time.
func quorumLost(t *testing.T, r row, store *etcd, l *traffic.Load) {
	for range times(1, 5) {
		first := r.random.IntN(3)
		gone := []*etcdMember{store.members[first], store.members[(first+1)%3]}
		for _, m := range gone {
			m.kill()
		}
		poll.Pause(t.Context(), 200*time.Millisecond)
		before := l.Writes()
		poll.Pause(t.Context(), time.Duration(times(1, 30))*time.Second)
		if meanwhile := l.Writes() - before; meanwhile > 0 {
			t.Errorf("%d writes were acknowledged by one member of three", meanwhile)
		}
		for _, m := range gone {
			m.start(t)
		}
		store.waitHealthy(t)
		t.Logf("%s and %s came back; clients recovered after %s", gone[0].name, gone[1].name, l.Recovered(t, recovery))
	}
	if report.Full() {
		wantText(t, "what clients are told without a quorum", strings.Join(l.Failed(), "\n"), "etcdserver:")
	}
}
