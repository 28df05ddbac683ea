// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/controllers/leadership"
)

// crew is electors that share groups.
type crew struct {
	t      *testing.T
	name   string
	stages []*stage
	all    map[string]*candidate
}

func newCrew(t *testing.T, groups int) *crew {
	c := &crew{t: t, name: newStage(t).lease.Name, all: map[string]*candidate{}}
	for i := range groups {
		s := newStage(t)
		s.lease.Name = fmt.Sprintf("%s-g%d", c.name, i)
		c.stages = append(c.stages, s)
	}
	return c
}

func (c *crew) join(who string, change ...func(*plan)) *candidate {
	c.t.Helper()
	p := &plan{options: leadership.NewOptions()}
	p.options.Client, p.options.Timings, p.options.Host, p.options.Metrics = admin, quick, who, leadership.NewMetrics()
	p.options.Replicas.Namespace, p.options.Replicas.Name = "default", c.name
	for _, f := range change {
		f(p)
	}
	groups := make([]leadership.Group, 0, len(c.stages))
	for _, s := range c.stages {
		groups = append(groups, leadership.Group{Name: s.lease.Name, Lease: s.lease, New: func(term *leadership.Term) ([]leadership.Runnable, error) {
			return []leadership.Runnable{s.runner(who, term, nil)}, nil
		}})
	}
	c.all[who] = run(c.t, p, who, groups...)
	return c.all[who]
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
	list, err := client.CoordinationV1().Leases("default").List(c.t.Context(), metav1.ListOptions{LabelSelector: "leadership.annex.io/members=" + c.name})
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
	c := newCrew(t, 12)
	c.join("a")
	c.await(soon, 12)
	c.join("b")
	c.join("d")
	c.await(30*time.Second, 4, 4, 4)
	// Groups that were handed over were paused alone: the groups that a kept are in their first term. Others may have moved twice, since a
	// released group goes to the elector that leads fewest only as far as 10 ms a group decide that on a busy machine.
	kept := 0
	for _, s := range c.stages {
		if starts := s.all("start", ""); len(starts) == 1 {
			kept++
		}
	}
	if kept != 4 {
		t.Errorf("%d groups were kept, want 4", kept)
	}
	if got := c.members(); len(got) != 3 {
		t.Errorf("the members are %v", got)
	}

	before := c.led()
	c.all["b"].stop()
	delete(c.all, "b")
	c.await(30*time.Second, 6, 6)
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
}

func TestNothingIsSpreadWhereALostLeaseEndsTheProcess(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 4)
	old := func(p *plan) { p.options.ExitOnLoss = true }
	c.join("a", old)
	c.await(soon, 4)
	c.join("b", old)
	throughout(t, quick.LeaseDuration+2*quick.BalanceAfter, "a leads all", func() (bool, any) {
		led := c.led()
		return len(led["a"]) == 4, led
	})
	if got := c.members(); len(got) != 0 {
		t.Errorf("the members are %v", got)
	}
}

// TestGroupsAreNotGivenUpForWhoCannotLeadThem: a replica whose condition does not hold is none for the group.
func TestNoGroupIsGivenUpForAMemberThatCannotLeadIt(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 2)
	c.join("a")
	c.await(soon, 2)
	other := newStage(t)
	p := &plan{options: leadership.NewOptions()}
	p.options.Client, p.options.Timings, p.options.Host, p.options.Metrics = admin, quick, "b", leadership.NewMetrics()
	p.options.Replicas.Namespace, p.options.Replicas.Name = "default", c.name
	run(t, p, "b", leadership.Group{Name: "other", Lease: types.NamespacedName{Namespace: "default", Name: other.lease.Name},
		New: func(term *leadership.Term) ([]leadership.Runnable, error) {
			return []leadership.Runnable{other.runner("b", term, nil)}, nil
		}})
	other.await(soon, "start", "b", 1)
	throughout(t, quick.BalanceAfter+2*time.Second, "a leads both", func() (bool, any) {
		led := c.led()
		return len(led["a"]) == 2, led
	})
}

func TestADeadMemberIsForgotten(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 2)
	c.join("a")
	dead := newStage(t)
	dead.hold("dead_abcdefghij", time.Second)
	lease := dead.get()
	lease.Labels = map[string]string{"leadership.annex.io/members": c.name}
	lease.Annotations = map[string]string{"leadership.annex.io/groups": c.stages[0].lease.Name}
	if _, err := client.CoordinationV1().Leases("default").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "both are seen", func() (bool, any) { m := c.members(); return len(m) == 2, m })
	eventually(t, 20*time.Second, "the dead one is gone", func() (bool, any) { m := c.members(); return len(m) == 1, m })
	c.await(soon, 2)
}
