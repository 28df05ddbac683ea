// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
)

// Rows of the table.
const (
	rowStarted  = "graceful hand-over, release sent to runners started, ms"
	rowAnswered = "the same, from the release's answer, ms"
	rowCommits  = "release to next acquisition, answer to answer, ms"
	rowPeer     = "client-go's LeaderElector with ReleaseOnCancel, release sent to OnStartedLeading, ms"
	rowRatio    = "client-go's median to ours"
)

// one is a candidate that takes part in hand-overs.
type one struct {
	tap       tap
	candidate *leadership.Elector
	wanted    chan bool
	started   chan time.Time
}

func newOne(at server, name string) (*one, error) {
	o := &one{wanted: make(chan bool), started: make(chan time.Time, 1)}
	options := leadership.NewOptions()
	options.Client, options.Host = at.client(&o.tap), name
	var err error
	o.candidate, err = leadership.New(options, leadership.Group{
		Name: "hand-over", Lease: types.NamespacedName{Namespace: "default", Name: "hand-over"},
		When: func(ctx context.Context, report func(bool)) error {
			for {
				select {
				case on := <-o.wanted:
					report(on)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		},
		New: func(*leadership.Term) ([]leadership.Runnable, error) {
			return []leadership.Runnable{{Name: "nothing", Run: func(ctx context.Context) error {
				o.started <- time.Now()
				<-ctx.Done()
				return nil
			}}}, nil
		},
	})
	return o, err
}

// follows waits until the candidate knows who leads.
func (o *one) follows(ctx context.Context, leader *one) error {
	return wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		mine, other := o.candidate.Statuses()[0], leader.candidate.Statuses()[0]
		return mine.Role == leadership.Follower && other.Role == leadership.Leading && mine.Holder == other.Holder, nil
	})
}

// handOver has two candidates pass a group to and fro.
func handOver(ctx context.Context, s settings, at server, results *table) error {
	progress("%d hand-overs at %s", s.cycles, at.name)
	quiet()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	leader, err := newOne(at, "a")
	if err != nil {
		return err
	}
	follower, err := newOne(at, "b")
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	for _, o := range []*one{leader, follower} {
		go func() { ended <- o.candidate.Run(ctx) }()
	}
	leader.wanted <- true
	<-leader.started
	follower.wanted <- true
	for range s.cycles {
		if err := follower.follows(ctx, leader); err != nil {
			return fmt.Errorf("wait for the follower to see who leads: %w", err)
		}
		told := time.Now()
		leader.wanted <- false
		var started time.Time
		select {
		case started = <-follower.started:
		case <-ctx.Done():
			return ctx.Err()
		}
		// Runners may start before the answer to the release is back.
		_, acquired := follower.tap.calls()
		var released call
		err := wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			released, _ = leader.tap.calls()
			return released.sent.After(told), nil
		})
		if err != nil {
			return fmt.Errorf("wait for the release: %w", err)
		}
		results.add(rowStarted, at, started.Sub(released.sent))
		results.add(rowAnswered, at, started.Sub(released.answered))
		results.add(rowCommits, at, acquired.answered.Sub(released.answered))
		leader.wanted <- true
		leader, follower = follower, leader
	}
	stop()
	return errors.Join(<-ended, <-ended)
}

// peerHandOver does the same with client-go.
func peerHandOver(ctx context.Context, s settings, at server, results *table) error {
	progress("%d hand-overs of client-go at %s", s.peerCycles, at.name)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	leader, err := newElector(at, "a")
	if err != nil {
		return err
	}
	follower, err := newElector(at, "b")
	if err != nil {
		return err
	}
	leader.run(ctx)
	<-leader.started
	follower.run(ctx)
	for range s.peerCycles {
		// Its candidates only poll: a hand-over comes at any time in between.
		if err := pause(ctx, 3*time.Second+rand.N(2400*time.Millisecond)); err != nil {
			return err
		}
		leader.cancel()
		var started time.Time
		select {
		case started = <-follower.started:
		case <-ctx.Done():
			return ctx.Err()
		}
		<-leader.ended
		released, _ := leader.tap.calls()
		results.add(rowPeer, at, started.Sub(released.sent))
		leader.run(ctx)
		leader, follower = follower, leader
	}
	stop()
	<-leader.ended
	<-follower.ended
	return nil
}

// elector is a candidate of client-go's.
type elector struct {
	tap     tap
	config  leaderelection.LeaderElectionConfig
	started chan time.Time
	cancel  context.CancelFunc
	ended   chan struct{}
}

func newElector(at server, name string) (*elector, error) {
	e := &elector{started: make(chan time.Time, 1)}
	client, err := kubernetes.NewForConfig(at.client(&e.tap))
	if err != nil {
		return nil, err
	}
	e.config = leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "hand-over-client-go"},
			Client:    client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: leadership.DefaultLeaseDuration, RenewDeadline: leadership.DefaultRenewDeadline, RetryPeriod: leadership.DefaultRetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { e.started <- time.Now() },
			OnStoppedLeading: func() {},
		},
	}
	_, err = leaderelection.NewLeaderElector(e.config)
	return e, err
}

func (e *elector) run(ctx context.Context) {
	ctx, e.cancel = context.WithCancel(ctx)
	e.ended = make(chan struct{})
	ended := e.ended
	go func() {
		defer close(ended)
		leaderelection.RunOrDie(ctx, e.config)
	}()
}

// quiet keeps candidates of this process from telling about every term.
func quiet() { klog.SetLogger(logr.Discard()) }
