// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/controllers/leadership"
)

func TestAReleaseNamesTheTermAndFollowersTakeItAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	leader := s.candidate("0")
	s.await(soon, "start", "0", 1)
	for i := 1; i <= 5; i++ {
		who := string(rune('0' + i))
		follower := s.candidate(who)
		follower.role(leadership.Follower)
		eventually(t, soon, "the follower knows the holder", func() (bool, any) {
			status := follower.Statuses()[0]
			return status.Holder != "", status
		})
		leader.stop()
		s.await(soon, "start", who, 1)
		leader = follower
	}
	before := s.get()
	leader.stop()
	after := s.get()
	if got, want := after.Annotations[fencing.ReleasedAnnotation], fencing.Current(before).Value(); got != want {
		t.Errorf("the release names %q, want %q", got, want)
	}
	if holderOf(after) != "" || *after.Spec.LeaseTransitions != 5 {
		t.Errorf("the released Lease is %v", after.Spec)
	}
}

// elect runs client-go's LeaderElector on the Lease of the stage.
func (s *stage) elect(who string) (stop func(), leads <-chan struct{}) {
	s.t.Helper()
	started := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: s.lease.Namespace, Name: s.lease.Name}, Client: s.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: who},
		},
		LeaseDuration: quick.LeaseDuration, RenewDeadline: quick.RenewDeadline, RetryPeriod: quick.RetryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(started) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		elector.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	s.t.Cleanup(stop)
	return stop, started
}

func TestALeaseIsSharedWithClientGo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		ours := s.candidate("ours")
		s.await(soon, "start", "ours", 1)
		stopTheirs, theirs := s.elect("theirs")
		s.renewals(4)
		select {
		case <-theirs:
			t.Fatal("client-go has taken a Lease that is renewed")
		default:
		}
		ours.stop()
		select {
		case <-theirs:
		case <-time.After(soon):
			t.Fatal("client-go does not take a Lease that was released")
		}

		again := s.candidate("again")
		var held *coordinationv1.Lease
		throughout(t, quick.LeaseDuration+time.Second, "client-go leads", func() (bool, any) {
			held = s.get()
			return holderOf(held) == "theirs" && len(s.all("build", "again")) == 0, held.Spec
		})
		again.role(leadership.Follower)
		released := time.Now()
		stopTheirs()
		// client-go lets go while its work may go on, so its release does not count.
		wantTook(t, "taking a Lease from client-go", s.await(soon, "start", "again", 1).at.Sub(released), quick.LeaseDuration)
		again.stop()
		if _, theirs = s.elect("afterwards"); true {
			select {
			case <-theirs:
			case <-time.After(soon):
				t.Fatal("client-go does not take a Lease that was released")
			}
		}
	})
}

func TestARestartTakesItsOwnLeaseAtOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		owner string
		want  time.Duration
	}{
		"the same owner": {"disk1", 0}, "another owner": {"disk2", quick.LeaseDuration}, "no owner": {"", quick.LeaseDuration},
		"a longer owner": {"disk", quick.LeaseDuration},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *stage) {
				began := time.Now()
				s.hold("host_disk1.abcdefghij_3", quick.LeaseDuration)
				s.candidate("a", func(p *plan) { p.options.Owner = tc.owner })
				wantTook(t, "taking the Lease", s.await(soon, "start", "a", 1).at.Sub(began), tc.want)
			})
		})
	}
}

func TestTwoCandidatesOfOneOwnerInAProcessHaveOneLeader(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		owned := func(p *plan) { p.options.Owner = "disk" }
		a := s.candidate("a", owned)
		holder := s.await(soon, "start", "a", 1).holder
		b := s.candidate("b", owned)
		s.renewals(2)
		if lease := s.get(); holderOf(lease) != holder || len(s.all("build", "b")) > 0 {
			t.Fatalf("the Lease of %s, who is at work, was taken: %v", holder, lease.Spec)
		}
		b.role(leadership.Follower)
		a.stop()
		if next := s.await(soon, "start", "b", 1).holder; next == holder {
			t.Errorf("two candidates have the identity %s", holder)
		}
	})
}
