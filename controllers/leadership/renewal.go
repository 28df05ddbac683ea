// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/internal/workloop"
)

// deadlineTick bounds how late a machine that was suspended notices that its time is over: timers stand still meanwhile.
const deadlineTick = time.Second

// errNotRenewed is why a term ends at the renew deadline.
var errNotRenewed = errors.New("the Lease was not renewed in time")

// renewal keeps the Lease of a term until run's context ends, which is after all runnables have returned: also while they stop, and
// after the renew deadline, for as long as that succeeds.
type renewal struct {
	held    *heldLease
	term    *Term
	timings Timings
	clock   Clock

	// lost is closed when the term has to end: at the renew deadline, or when the Lease belongs to someone else. why is valid then.
	lost chan struct{}
	why  error
	once sync.Once
	// taken reports that the Lease belongs to another holder, so that there is nothing to renew or to release.
	taken atomic.Bool
	// startedAt is when the last request that succeeded was started, on the clock's Elapsed.
	startedAt atomic.Int64
}

func newRenewal(held *heldLease, term *Term, timings Timings, clock Clock, started time.Duration) *renewal {
	r := &renewal{held: held, term: term, timings: timings, clock: clock, lost: make(chan struct{})}
	r.succeeded(started)
	return r
}

// usable is how long after a renewal work may go on at most, while it is being stopped.
func (t Timings) usable() time.Duration { return t.LeaseDuration - t.LeaseDuration/stopShare }

func (r *renewal) succeeded(started time.Duration) {
	r.startedAt.Store(int64(started))
	r.term.renewedAt(started, r.timings.usable())
}

// age is how long ago the last renewal was started.
func (r *renewal) age() time.Duration { return r.clock.Elapsed() - time.Duration(r.startedAt.Load()) }

func (r *renewal) lose(why error) {
	r.once.Do(func() {
		r.why = why
		close(r.lost)
	})
}

// run renews until the context ends or the Lease is someone else's.
func (r *renewal) run(ctx context.Context) {
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { r.watchDeadline(watched) })
	defer watching.Wait()
	defer stop()
	wait := r.timings.LeaseDuration/renewShare - r.age()
	for {
		if workloop.Pause(ctx, clock.RealClock{}, wait) != nil {
			return
		}
		started := r.clock.Elapsed()
		err := r.renew(ctx)
		switch {
		case err == nil:
			r.succeeded(started)
			wait = r.timings.LeaseDuration/renewShare - r.age()
		case errors.Is(err, errTaken):
			r.taken.Store(true)
			r.lose(err)
			return
		case apierrors.IsConflict(err):
			wait = 0 // the Lease was read anew
		default:
			klog.FromContext(ctx).Info("The Lease could not be renewed; trying again", "age", r.age(), "reason", err.Error())
			wait = jittered(r.timings.RetryPeriod)
		}
	}
}

func (r *renewal) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.timings.RenewDeadline/2)
	defer cancel()
	return r.held.renew(ctx)
}

// watchDeadline gives the term up when the last renewal is too old, whatever the next one is waiting for.
func (r *renewal) watchDeadline(ctx context.Context) {
	for ctx.Err() == nil {
		left := r.timings.RenewDeadline - r.age()
		if left <= 0 {
			r.lose(fmt.Errorf("%w: the last renewal was %s ago", errNotRenewed, r.age().Round(time.Millisecond)))
			return
		}
		_ = workloop.Pause(ctx, clock.RealClock{}, min(left, deadlineTick))
	}
}
