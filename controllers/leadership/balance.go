// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

// handOverInterval is the least time between two hand-overs of a process, in which the first group finds its new holder.
const handOverInterval = time.Second

// balance hands over one group if this process leads more than its share and another process could take it: the group that it has led
// for the shortest time, so that groups move as little as possible.
func (r *replicas) balance(ctx context.Context) {
	now := r.elector.options.Clock.Elapsed()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.live) < 2 || now-r.stableSince < r.elector.options.Timings.BalanceAfter || now-r.handedOverAt < handOverInterval {
		return
	}
	wanted := len(r.elector.wantedGroups())
	share := (wanted + len(r.live) - 1) / len(r.live)
	if r.elector.leadingCount() <= share {
		return
	}
	var chosen *group
	var shortest time.Duration
	for _, g := range r.elector.groups {
		_, since, ok := g.status.handOverFunc()
		if !ok || !r.othersCanLead(g.Name) {
			continue
		}
		if chosen == nil || since < shortest {
			chosen, shortest = g, since
		}
	}
	if chosen == nil {
		return
	}
	r.handedOverAt = now
	klog.FromContext(ctx).Info("Handing over a group, since this process leads more than its share", "group", chosen.Name,
		"led", r.elector.leadingCount(), "share", share, "replicas", len(r.live))
	if handOver, _, ok := chosen.status.handOverFunc(); ok {
		handOver(errHandedOver)
	}
}

func (r *replicas) othersCanLead(group string) bool {
	for name, groups := range r.live {
		if name != r.own.Name && slices.Contains(groups, group) {
			return true
		}
	}
	return false
}

// wantedGroups are those whose condition holds.
func (e *Elector) wantedGroups() []string {
	names := make([]string, 0, len(e.groups))
	for _, g := range e.groups {
		if status, _, _ := g.status.snapshot(g.Name); status.Role != Off {
			names = append(names, g.Name)
		}
	}
	return names
}

// leadingCount returns the number of groups that this process leads.
func (e *Elector) leadingCount() int {
	n := 0
	for _, g := range e.groups {
		if _, _, ok := g.status.handOverFunc(); ok {
			n++
		}
	}
	return n
}

// acquireDelay returns the delay before the process takes a free Lease, so that processes that lead fewer groups come first.
func (e *Elector) acquireDelay() time.Duration {
	if e.replicas == nil {
		return 0
	}
	return time.Duration(e.leadingCount()) * acquireDelayPerGroup
}
