// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaims

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/internal/logonce"
)

// Pauses after work that failed: doubled each time, and short again after work that succeeded.
const (
	firstPause = 200 * time.Millisecond
	longPause  = 30 * time.Second
)

// Loop does the work of a controller: at first, whenever its claim changes, and again after the time that the work asks for.
type Loop struct {
	Claim *Claim
	Clock clock.Clock
	// Seen is called with versions of the claim, before the work is done; it may be nil.
	Seen func(*v1alpha1.ClusterClaim)
	// Work returns when to work again at the latest. After an error it is done again soon.
	Work func(context.Context) (time.Duration, error)
	// LongPause is the longest pause after work that failed; 0 is half a minute.
	LongPause time.Duration
}

// Run works until the context ends, and returns when all work has ended.
func (l *Loop) Run(ctx context.Context) {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	var following sync.WaitGroup
	defer following.Wait()
	leadership.Go(ctx, &following, func() {
		kick := func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		l.Claim.Follow(ctx, func(claim *v1alpha1.ClusterClaim) {
			if l.Seen != nil {
				l.Seen(claim)
			}
			kick()
		}, kick)
	})
	var again <-chan time.Time
	pause, logged := firstPause, logonce.Error{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again:
		}
		next, err := l.Work(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause, logged = firstPause, logonce.Error{}
		default:
			// That somebody else was faster is ordinary.
			if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && logged.Changed(err) {
				klog.FromContext(ctx).Error(err, "Cannot do all that is to be done; trying again")
			}
			next, pause = pause, min(2*pause, l.longPause())
		}
		again = l.Clock.After(next)
	}
}

func (l *Loop) longPause() time.Duration {
	if l.LongPause > 0 {
		return l.LongPause
	}
	return longPause
}
