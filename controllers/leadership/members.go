// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// membersLabel of a member Lease names the set, groupsAnnotation the groups that the member can lead.
	membersLabel     = "leadership.annex.io/members"
	groupsAnnotation = "leadership.annex.io/groups"
	// forgotten is how many lease durations the Lease of a dead member is kept.
	forgotten = 10
)

// members knows the processes that share the groups, by the Leases with which they announce themselves.
type members struct {
	candidate *Candidate
	leases    coordinationclient.LeaseInterface
	uid, name string

	mu   sync.Mutex
	seen map[string]*member
	// live are the names of those that live, and stableSince is when that last changed.
	live        []string
	stableSince time.Duration
	yieldedAt   time.Duration
	// err is why this process could not announce itself or look for others, the last time it tried.
	err error
}

// member is another process, or this one. It lives while its renew time changes, by our clock.
type member struct {
	renewed   metav1.MicroTime
	changedAt time.Duration
	duration  time.Duration
	groups    []string
}

func newMembers(c *Candidate) *members {
	return &members{
		candidate: c, leases: c.leases.Leases(c.options.Members.Namespace),
		uid: c.uid, name: c.options.Members.Name + "-" + c.uid, seen: map[string]*member{},
	}
}

// run announces this process, follows the others, and has groups released where the process leads too many.
func (m *members) run(ctx context.Context) {
	timings := m.candidate.options.Timings
	period := min(timings.RetryPeriod, timings.LeaseDuration/renewShare)
	logger := klog.FromContext(ctx)
	var announced time.Duration
	isAnnounced := false
	for ctx.Err() == nil {
		now := m.candidate.options.Clock.Elapsed()
		var err error
		if !isAnnounced || now-announced >= timings.LeaseDuration/renewShare-period/2 {
			if err = m.announce(ctx); err == nil {
				announced, isAnnounced = now, true
			}
		}
		if looked := m.look(ctx); looked != nil {
			err = errors.Join(err, looked)
		} else {
			m.spread(ctx)
		}
		if news := m.failed(err); err != nil && ctx.Err() == nil {
			logger.V(quietly(news)).Info("Groups cannot be spread over the members; trying again", "reason", err.Error())
		}
		pause(ctx, period)
	}
	m.leave(ctx)
}

// failed notes how it goes, and tells whether a failure is news.
func (m *members) failed(err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := m.err == nil
	m.err = err
	return news
}

// String is the line of /healthz/leadership.
func (m *members) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	line := fmt.Sprintf("members: %d", len(m.live))
	if m.err != nil {
		line += "; " + firstLine(m.err) + "; grant get, list, create, update and delete on leases of coordination.k8s.io in the namespace, and see that it exists"
	}
	return line
}

// announce renews the Lease of this process.
func (m *members) announce(ctx context.Context) error {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	c := m.candidate
	now := metav1.MicroTime{Time: c.options.Clock.Now().Truncate(time.Microsecond)}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.options.Members.Namespace, Name: m.name,
			Labels:      map[string]string{membersLabel: c.options.Members.Name},
			Annotations: map[string]string{groupsAnnotation: strings.Join(c.wantedGroups(), ",")},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(c.options.Host + "_" + m.uid), RenewTime: &now,
			LeaseDurationSeconds: ptr.To(int32(c.options.Timings.LeaseDuration / time.Second)),
		},
	}
	current, err := m.leases.Get(ctx, m.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = m.leases.Create(ctx, lease, metav1.CreateOptions{})
	case err == nil:
		lease.ResourceVersion = current.ResourceVersion
		_, err = m.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("announce this process in Lease %s/%s: %w", c.options.Members.Namespace, m.name, err)
	}
	return nil
}

// look finds out who lives, and removes the Leases of those long dead.
func (m *members) look(ctx context.Context) error {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	list, err := m.leases.List(ctx, metav1.ListOptions{
		LabelSelector: membersLabel + "=" + m.candidate.options.Members.Name, ResourceVersion: "0",
	})
	if err != nil {
		return fmt.Errorf("list the members: %w", err)
	}
	now := m.candidate.options.Clock.Elapsed()
	m.saw(list.Items, now)
	for _, lease := range m.dead(list.Items, now) {
		err := m.leases.Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &lease.ResourceVersion}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("remove the Lease of a dead member: %w", err)
		}
	}
	return nil
}

func (m *members) saw(leases []coordinationv1.Lease, now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	present := map[string]bool{}
	for _, lease := range leases {
		present[lease.Name] = true
		known := m.seen[lease.Name]
		if known == nil {
			known = &member{changedAt: now}
			m.seen[lease.Name] = known
		}
		if renewed := ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}); !renewed.Equal(&known.renewed) {
			known.renewed, known.changedAt = renewed, now
		}
		known.duration = durationOf(&lease, m.candidate.options.Timings.LeaseDuration)
		known.groups = strings.FieldsFunc(lease.Annotations[groupsAnnotation], func(r rune) bool { return r == ',' })
	}
	maps.DeleteFunc(m.seen, func(name string, _ *member) bool { return !present[name] })
	var live []string
	for name, known := range m.seen {
		if now-known.changedAt < known.duration {
			live = append(live, name)
		}
	}
	slices.Sort(live)
	if !slices.Equal(live, m.live) {
		m.live, m.stableSince = live, now
	}
}

func (m *members) dead(leases []coordinationv1.Lease, now time.Duration) []coordinationv1.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(leases), func(lease coordinationv1.Lease) bool {
		known := m.seen[lease.Name]
		return lease.Name == m.name || now-known.changedAt < forgotten*known.duration
	})
}

// leave removes the Lease of this process, whose groups have been released.
func (m *members) leave(ctx context.Context) {
	ctx, cancel := m.bounded(context.WithoutCancel(ctx))
	defer cancel()
	if err := m.leases.Delete(ctx, m.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(1).Info("The announcement of this process could not be removed and is left to expire", "reason", err.Error())
	}
}

func (m *members) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, m.candidate.options.Timings.RetryPeriod)
}
