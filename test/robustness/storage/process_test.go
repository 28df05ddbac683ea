// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// TestKilledInMidWrite kills `annex up` while clients write through all of it, again and again.
func TestKilledInMidWrite(t *testing.T) {
	t.Parallel()
	r, s := newRow(t), newUp(t)
	s.start(t)
	l := r.work(t, traffic.Options{Clients: 16, Keys: 16, Objects: traffic.ClusterClaims(), Pause: time.Millisecond}, s)
	var slowest time.Duration
	for range times(10, 200) {
		l.WaitFor(t, 20)
		poll.Pause(t.Context(), time.Duration(r.random.IntN(200))*time.Millisecond)
		s.kill()
		s.start(t)
		slowest = max(slowest, l.Recovered(t, recovery))
	}
	t.Logf("once it was ready again, clients recovered within %s", slowest)
	l.Verdict(t)
}

// TestDiskFull has the process end, since its etcd can write nothing down, and say why. It starts again once there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	r, s := newRow(t), newControlPlane(t)
	s.start(t)
	l := r.work(t, traffic.Options{}, s)
	for range times(1, 10) {
		l.WaitFor(t, 50)
		s.trouble(t, "full")
		began := time.Now()
		wantText(t, "what a server says last whose disk is full", s.waitEnd(t, startTimeout), "etcd ended: ", "no space left on device")
		s.trouble(t, "")
		took := time.Since(began)
		s.start(t)
		t.Logf("ended after %s; started again; clients recovered after %s", took, l.Recovered(t, recovery))
	}
	l.Verdict(t)
}
