// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"time"

	"github.com/google/pprof/profile"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/internal/workloop"
)

// leakChecks are when goroutines are looked for after a term: what only takes a moment to end is no leak.
var leakChecks = []time.Duration{time.Second, 5 * time.Second}

// leaks looks for goroutines that terms of a group have left behind, without delaying the next term.
type leaks struct {
	group   *group
	pending chan struct{}
}

func newLeaks(g *group) *leaks { return &leaks{group: g, pending: make(chan struct{}, 1)} }

// termEnded schedules a check.
func (l *leaks) termEnded() {
	select {
	case l.pending <- struct{}{}:
	default: // a check is scheduled already
	}
}

func (l *leaks) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.pending:
		}
		var found []*profile.Sample
		for i, wait := range leakChecks {
			if workloop.Pause(ctx, clock.RealClock{}, wait) != nil {
				return
			}
			status, _, _ := l.group.status.snapshot(l.group.Name)
			if found = leftOver(l.group.Name, status.Holder, found, i == 0); len(found) == 0 {
				break
			}
		}
		l.report(ctx, found)
	}
}

// report logs the goroutines of past terms and sets the metric.
func (l *leaks) report(ctx context.Context, found []*profile.Sample) {
	n := total(found)
	l.group.metrics.leaked.WithLabelValues(l.group.Name).Set(float64(n))
	if n > 0 {
		klog.FromContext(ctx).Info("Terms that are over have left goroutines behind; a runner must end all it started before it returns",
			"group", l.group.Name, "goroutines", n, "stacks", stacks(found))
	}
}
