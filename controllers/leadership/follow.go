// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/internal/workloop"
)

// observedLease is a state of the Lease, nil if the Lease does not exist, or the error of reading the Lease.
type observedLease struct {
	lease *coordinationv1.Lease
	err   error
}

// follower watches one Lease, so that it is taken as soon as it is released, and polls it where watching is not possible.
type follower struct {
	*lock
	retry time.Duration
	// timeout bounds reading the Lease.
	timeout time.Duration
	// stopWatch ends the current watch; see restart.
	stopWatch atomic.Pointer[context.CancelFunc]
}

// restart reads and watches the Lease anew, since the watch is behind the server.
func (f *follower) restart() {
	if stop := f.stopWatch.Load(); stop != nil {
		(*stop)()
	}
}

// run sends observed states until the context ends.
func (f *follower) run(ctx context.Context, out chan<- observedLease) {
	for ctx.Err() == nil {
		if !f.readAndWatch(ctx, out) {
			_ = workloop.Pause(ctx, clock.RealClock{}, jittered(f.retry))
		}
	}
}

// readAndWatch reads the Lease and watches it, and reports whether the next round may begin at once.
func (f *follower) readAndWatch(ctx context.Context, out chan<- observedLease) bool {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	f.stopWatch.Store(&stop)
	reading, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	lease, err := f.get(reading)
	if !send(ctx, out, observedLease{lease: lease, err: err}) || err != nil {
		return false
	}
	return f.watch(watching, lease, out) || watching.Err() != nil
}

// watch sends changes until the watch ends. It reports whether the next watch may begin at once.
func (f *follower) watch(ctx context.Context, from *coordinationv1.Lease, out chan<- observedLease) bool {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, f.name.Name).String()}
	if from != nil {
		options.ResourceVersion = from.ResourceVersion
	}
	began := time.Now()
	events, err := f.leases.Watch(ctx, options)
	if err != nil {
		if apierrors.IsForbidden(err) {
			klog.FromContext(ctx).V(2).Info("The Lease cannot be watched, so hand-over takes a retry period; grant the verb watch on leases", "reason", err.Error())
		}
		return false
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case event, open := <-events.ResultChan():
			if !open {
				return time.Since(began) > f.retry
			}
			lease, ok := event.Object.(*coordinationv1.Lease)
			switch {
			case event.Type == watch.Error || !ok:
				return time.Since(began) > f.retry
			case event.Type == watch.Bookmark:
				continue
			case event.Type == watch.Deleted:
				lease = nil
			}
			if !send(ctx, out, observedLease{lease: lease}) {
				return false
			}
		}
	}
}

func send[T any](ctx context.Context, out chan<- T, value T) bool {
	select {
	case out <- value:
		return true
	case <-ctx.Done():
		return false
	}
}

// jittered stretches a pause, so that electors do not try in step.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + (jitter-1)*rand.Float64()))
}
