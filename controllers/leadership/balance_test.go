// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/controllers/leadership"
)

// crew is electors that share groups.
type crew struct {
	*stage
	stages []*stage
	all    map[string]*candidate
}

func newCrew(s *stage, groups int) *crew {
	c := &crew{stage: s, all: map[string]*candidate{}}
	for i := range groups {
		group := s.another()
		group.lease.Name = fmt.Sprintf("%s-g%d", s.lease.Name, i)
		c.stages = append(c.stages, group)
	}
	return c
}

// join starts an elector of the groups of the stages.
func (c *crew) join(who string, stages []*stage, change ...func(*plan)) {
	c.t.Helper()
	sharing := func(p *plan) {
		p.options.Replicas.Namespace, p.options.Replicas.Name = "default", c.lease.Name
		for _, s := range stages[1:] {
			p.more = append(p.more, s.group(who, nil))
		}
	}
	c.all[who] = stages[0].candidate(who, append(change, sharing)...)
}

// led is the groups that each elector leads.
func (c *crew) led() map[string][]string {
	out := map[string][]string{}
	for who, one := range c.all {
		for _, status := range one.Statuses() {
			if status.Role == leadership.Leading {
				out[who] = append(out[who], status.Group)
			}
		}
	}
	return out
}

// await waits until the electors lead as many groups, from the most to the fewest.
func (c *crew) await(within time.Duration, want ...int) {
	c.t.Helper()
	eventually(c.t, within, fmt.Sprintf("the candidates lead %v groups", want), func() (bool, any) {
		led := c.led()
		got := make([]int, 0, len(led))
		for _, groups := range led {
			got = append(got, len(groups))
		}
		slices.SortFunc(got, func(a, b int) int { return b - a })
		return slices.Equal(got, want), led
	})
}

func (c *crew) members() []string {
	c.t.Helper()
	list, err := c.client.CoordinationV1().Leases("default").List(c.t.Context(), metav1.ListOptions{LabelSelector: "leadership.annex.io/members=" + c.lease.Name})
	if err != nil {
		c.t.Fatal(err)
	}
	names := make([]string, 0, len(list.Items))
	for _, lease := range list.Items {
		names = append(names, lease.Name)
	}
	return names
}

func TestGroupsAreSpreadEvenlyAndOnlyThoseOfALostMemberMove(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		c := newCrew(s, 12)
		c.join("a", c.stages)
		c.await(soon, 12)
		c.join("b", c.stages)
		c.join("d", c.stages)
		// One of the eight surplus groups is handed over a second.
		c.await(quick.BalanceAfter+10*time.Second, 4, 4, 4)
		terms := 0
		for _, s := range c.stages {
			terms += len(s.all("start", ""))
		}
		if terms != 12+8 {
			t.Errorf("%d terms have begun, want one for each group and one for each that moved", terms)
		}
		if got := c.members(); len(got) != 3 {
			t.Errorf("the members are %v", got)
		}

		before := c.led()
		c.all["b"].stop()
		delete(c.all, "b")
		c.await(soon, 6, 6)
		for who, groups := range c.led() {
			for _, group := range before[who] {
				if !slices.Contains(groups, group) {
					t.Errorf("%s of %s has moved, too", group, who)
				}
			}
		}
		if got := c.members(); len(got) != 2 {
			t.Errorf("after one has left, the members are %v", got)
		}
		for _, one := range c.all {
			one.stop()
		}
		if got := c.members(); len(got) != 0 {
			t.Errorf("after all have left, the members are %v", got)
		}
	})
}

func TestNothingIsSpreadWhereALostLeaseEndsTheProcess(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		c := newCrew(s, 4)
		old := func(p *plan) { p.options.ExitOnLoss = true }
		c.join("a", c.stages, old)
		c.await(soon, 4)
		c.join("b", c.stages, old)
		throughout(t, quick.LeaseDuration+2*quick.BalanceAfter, "a leads all", func() (bool, any) {
			led := c.led()
			return len(led["a"]) == 4, led
		})
		if got := c.members(); len(got) != 0 {
			t.Errorf("the members are %v", got)
		}
	})
}

// TestNoGroupIsGivenUpForAMemberThatCannotLeadIt: a replica whose condition does not hold is none for the group.
func TestNoGroupIsGivenUpForAMemberThatCannotLeadIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		c := newCrew(s, 2)
		c.join("a", c.stages)
		c.await(soon, 2)
		c.join("b", []*stage{s})
		s.await(soon, "start", "b", 1)
		throughout(t, 10*quick.BalanceAfter, "a leads both", func() (bool, any) {
			led := c.led()
			return len(led["a"]) == 2, led
		})
		if got := c.members(); len(got) != 2 {
			t.Errorf("the members are %v", got)
		}
	})
}

func TestADeadMemberIsForgotten(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		c := newCrew(s, 2)
		const duration = time.Second
		c.hold("dead_abcdefghij", duration)
		c.edit(func(lease *coordinationv1.Lease) {
			lease.Labels = map[string]string{"leadership.annex.io/members": c.lease.Name}
			lease.Annotations = map[string]string{"leadership.annex.io/groups": c.stages[0].lease.Name}
		})
		c.join("a", c.stages)
		// The member is dead after a lease duration, and its Lease is removed after ten.
		throughout(t, 10*duration, "the Lease of the dead one is kept", func() (bool, any) { m := c.members(); return slices.Contains(m, c.lease.Name), m })
		eventually(t, duration, "the Lease of the dead one is gone", func() (bool, any) { m := c.members(); return len(m) == 1 && m[0] != c.lease.Name, m })
		c.await(soon, 2)
	})
}
