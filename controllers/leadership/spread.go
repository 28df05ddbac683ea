// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

// yieldPause is the time between two groups that a process hands over, in which the first finds its new holder.
const yieldPause = time.Second

// spread releases one group if this process leads more than its share and another one could take it: the one it has led for the
// shortest time, so that groups move as little as possible.
func (m *members) spread(ctx context.Context) {
	now := m.candidate.options.Clock.Elapsed()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.live) < 2 || now-m.stableSince < m.candidate.options.Timings.SpreadAfter || now-m.yieldedAt < yieldPause {
		return
	}
	wanted := len(m.candidate.wantedGroups())
	share := (wanted + len(m.live) - 1) / len(m.live)
	if m.candidate.led() <= share {
		return
	}
	var chosen *group
	var shortest time.Duration
	for _, g := range m.candidate.groups {
		_, since, ok := g.status.held()
		if !ok || !m.othersCanLead(g.Name) {
			continue
		}
		if chosen == nil || since < shortest {
			chosen, shortest = g, since
		}
	}
	if chosen == nil {
		return
	}
	m.yieldedAt = now
	klog.FromContext(ctx).Info("Handing over a group, since this process leads more than its share", "group", chosen.Name,
		"led", m.candidate.led(), "share", share, "members", len(m.live))
	if letGo, _, ok := chosen.status.held(); ok {
		letGo(errYielded)
	}
}

func (m *members) othersCanLead(group string) bool {
	return slices.ContainsFunc(m.live, func(name string) bool {
		return name != m.name && slices.Contains(m.seen[name].groups, group)
	})
}

// wantedGroups are those whose condition holds.
func (c *Candidate) wantedGroups() []string {
	names := make([]string, 0, len(c.groups))
	for _, g := range c.groups {
		if status, _, _ := g.status.snapshot(g.Name); status.Role != Off {
			names = append(names, g.Name)
		}
	}
	return names
}

// led is how many groups this process leads.
func (c *Candidate) led() int {
	n := 0
	for _, g := range c.groups {
		if _, _, ok := g.status.held(); ok {
			n++
		}
	}
	return n
}

// burden is how long the process waits before it takes a free Lease, so that those who lead less come first.
func (c *Candidate) burden() time.Duration {
	if c.members == nil {
		return 0
	}
	return time.Duration(c.led()) * burden
}
