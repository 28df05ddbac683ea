// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/internal/heartbeat"
	"github.com/kube-annex/annex/internal/workloop"
)

const (
	// replicasLabel of a replica's Lease names the set of replicas, groupsAnnotation the groups that the replica can lead.
	replicasLabel    = "leadership.annex.io/members"
	groupsAnnotation = "leadership.annex.io/groups"
	// expiredDurations is the number of lease durations for which the Lease of a dead replica is kept.
	expiredDurations = 10
)

// replicas has the processes that share the groups, by the Leases with which they announce themselves.
type replicas struct {
	elector *Elector
	leases  coordinationclient.LeaseInterface
	// own is the Lease of this process.
	own      *heartbeat.Lease
	observer *heartbeat.Observer

	mu sync.Mutex
	// live has the groups that each live replica can lead, by the name of its Lease, and stableSince is when its keys last changed.
	live         map[string][]string
	stableSince  time.Duration
	handedOverAt time.Duration
	// err is the error of the last attempt to announce this process or to observe the others.
	err error
}

func newReplicas(e *Elector) *replicas {
	r := &replicas{
		elector: e, leases: e.leases.Leases(e.options.Replicas.Namespace),
		observer: &heartbeat.Observer{Elapsed: e.options.Clock.Elapsed, DefaultDuration: e.options.Timings.LeaseDuration},
	}
	r.own = &heartbeat.Lease{
		Client: r.leases, Name: e.options.Replicas.Name + "-" + e.uid, Holder: e.options.Host + "_" + e.uid,
		Duration: e.options.Timings.LeaseDuration, Now: e.options.Clock.Now,
		Decorate: func(lease *coordinationv1.Lease) {
			lease.Namespace = e.options.Replicas.Namespace
			metav1.SetMetaDataLabel(&lease.ObjectMeta, replicasLabel, e.options.Replicas.Name)
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, groupsAnnotation, strings.Join(e.wantedGroups(), ","))
		},
	}
	return r
}

// run announces this process, observes the others, and hands over groups if the process leads too many.
func (r *replicas) run(ctx context.Context) {
	timings := r.elector.options.Timings
	period := min(timings.RetryPeriod, timings.LeaseDuration/renewShare)
	logger := klog.FromContext(ctx)
	var announced time.Duration
	isAnnounced := false
	for ctx.Err() == nil {
		now := r.elector.options.Clock.Elapsed()
		var err error
		if !isAnnounced || now-announced >= timings.LeaseDuration/renewShare-period/2 {
			if err = r.announce(ctx); err == nil {
				announced, isAnnounced = now, true
			}
		}
		if looked := r.refresh(ctx); looked != nil {
			err = errors.Join(err, looked)
		} else {
			r.balance(ctx)
		}
		if isNew := r.record(err); err != nil && ctx.Err() == nil {
			logger.V(verbosity(isNew)).Info("Could not balance the groups; trying again", "reason", err.Error())
		}
		_ = workloop.Pause(ctx, clock.RealClock{}, period)
	}
	r.withdraw(ctx)
}

// record stores the outcome of the last round, and reports whether an error is the first in a row.
func (r *replicas) record(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	isNew := r.err == nil
	r.err = err
	return isNew
}

// String is the line of /healthz/leadership.
func (r *replicas) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := fmt.Sprintf("replicas: %d", len(r.live))
	if r.err != nil {
		line += "; " + firstLine(r.err) + "; grant get, list, create, update and delete on leases of coordination.k8s.io in the namespace, and see that it exists"
	}
	return line
}

// announce renews the Lease of this process.
func (r *replicas) announce(ctx context.Context) error {
	ctx, cancel := r.withTimeout(ctx)
	defer cancel()
	if err := r.own.Renew(ctx); err != nil {
		return fmt.Errorf("announce this process in namespace %s: %w", r.elector.options.Replicas.Namespace, err)
	}
	return nil
}

// refresh observes which replicas live, and removes the Leases of replicas that are long dead.
func (r *replicas) refresh(ctx context.Context) error {
	ctx, cancel := r.withTimeout(ctx)
	defer cancel()
	options := r.elector.options
	list, err := r.leases.List(ctx, metav1.ListOptions{LabelSelector: replicasLabel + "=" + options.Replicas.Name, ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("list the Leases of replicas: %w", err)
	}
	r.observe(list.Items, options.Clock.Elapsed())
	for name, preconditions := range r.observer.Expired(options.Replicas.Namespace, expiredDurations) {
		if name == r.own.Name {
			continue
		}
		err := r.leases.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &preconditions})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete the Lease of a dead replica: %w", err)
		}
	}
	return nil
}

func (r *replicas) observe(leases []coordinationv1.Lease, now time.Duration) {
	r.observer.Replace(leases)
	live := map[string][]string{}
	r.observer.Live(func(lease *coordinationv1.Lease) {
		live[lease.Name] = strings.FieldsFunc(lease.Annotations[groupsAnnotation], func(r rune) bool { return r == ',' })
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if !maps.EqualFunc(live, r.live, func(_, _ []string) bool { return true }) {
		r.stableSince = now
	}
	r.live = live
}

// withdraw removes the Lease of this process, whose groups have been released.
func (r *replicas) withdraw(ctx context.Context) {
	ctx, cancel := r.withTimeout(context.WithoutCancel(ctx))
	defer cancel()
	if err := r.own.Release(ctx); err != nil {
		klog.FromContext(ctx).V(1).Info("Could not delete the Lease of this process; it will expire", "reason", err.Error())
	}
}

func (r *replicas) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.elector.options.Timings.RetryPeriod)
}
