// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kube-annex/annex/controllers/leadership"
)

// switched is a condition that a test switches.
func switched(switches <-chan bool) func(*plan) {
	return func(p *plan) {
		p.group.When = func(ctx context.Context, report func(bool)) error {
			for {
				select {
				case on := <-switches:
					report(on)
				case <-ctx.Done():
					return nil
				}
			}
		}
	}
}

func TestAGroupRunsWhileItsConditionHolds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		switches := make(chan bool)
		a := s.candidate("a", switched(switches))
		a.role(leadership.Off)
		if err := a.Check(nil); err != nil {
			t.Errorf("a group that is off: %v", err)
		}
		switches <- true
		s.await(soon, "start", "a", 1)
		switches <- true // is no news
		switches <- false
		s.await(soon, "stop", "a", 1)
		a.role(leadership.Off)
		if got := holderOf(s.get()); got != "" {
			t.Errorf("the Lease is held by %s", got)
		}
		switches <- true
		s.await(soon, "start", "a", 2)
		for range 50 { // flaps faster than terms begin
			switches <- false
			switches <- true
		}
		switches <- false
		a.role(leadership.Off)
		eventually(t, soon, "nothing is left", func() (bool, any) {
			n, err := labelledGoroutines(`"leadership_group":"`+s.lease.Name+`"`, `"leadership_call"`)
			return err == nil && n == 0, n
		})
		if started, stopped := len(s.all("start", "")), len(s.all("stop", "")); started != stopped {
			t.Errorf("%d runners have started and %d returned", started, stopped)
		}
	})
}

// TestAConditionThatEndsWhileItsGroupLeads: the group is stopped with the process, and a failed acquire is not waited for.
func TestAGroupIsSwitchedOffWhileItFollows(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		s.candidate("a")
		s.await(soon, "start", "a", 1)
		switches := make(chan bool)
		b := s.candidate("b", switched(switches))
		switches <- true
		b.role(leadership.Follower)
		switches <- false
		b.role(leadership.Off)
		if len(s.all("build", "b")) > 0 {
			t.Error("b has begun a term")
		}
	})
}

func TestAConditionThatFailsIsTriedAgainAndLeavesTheGroupAsItWas(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		calls, again := 0, make(chan struct{}) // one call follows another
		a := s.candidate("a", func(p *plan) {
			p.group.When = func(ctx context.Context, report func(bool)) error {
				calls++
				switch calls {
				case 1:
					report(true)
					s.await(soon, "start", "a", 1)
					return errors.New("the watch broke")
				case 2:
					panic("it broke worse") //nolint:forbidigo // what is tested
				}
				close(again)
				<-ctx.Done()
				return nil
			}
		})
		s.await(soon, "start", "a", 1)
		<-again
		if len(s.all("told", "")) > 0 {
			t.Error("the term has ended")
		}
		wantIn(t, "the log", a.log.String(), "the watch broke", "it broke worse")
	})
}
