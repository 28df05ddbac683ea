// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Load is work for concurrent clients.
type Load struct {
	// Clients is how many there are. Each begins an operation when its last one has ended.
	Clients int
	// For is how long they begin new operations; Least is how many they do in any case, and Most how many at most, where it is not 0.
	For         time.Duration
	Least, Most int
}

// Done is what a load has done.
type Done struct {
	Operations int
	// Wall is how long it took altogether, and Took how long each operation did, in no order.
	Wall time.Duration
	Took []time.Duration
}

// Run does the operations. Each gets the number of its client, from 0, and one of its own, counting from 0. The first error of a client
// ends that client, and is returned when all have ended.
func (l Load) Run(ctx context.Context, operation func(ctx context.Context, client, i int) error) (Done, error) {
	took := make([][]time.Duration, l.Clients)
	errs := make([]error, l.Clients)
	var begun atomic.Int64
	var working sync.WaitGroup
	began := time.Now()
	more := func(i int) bool {
		if l.Most > 0 && i >= l.Most || ctx.Err() != nil {
			return false
		}
		return i < l.Least || time.Since(began) < l.For
	}
	for client := range l.Clients {
		working.Go(func() {
			for i := int(begun.Add(1)) - 1; more(i); i = int(begun.Add(1)) - 1 {
				start := time.Now()
				if err := operation(ctx, client, i); err != nil {
					errs[client] = err
					return
				}
				took[client] = append(took[client], time.Since(start))
			}
		})
	}
	working.Wait()
	done := Done{Wall: time.Since(began)}
	for _, of := range took {
		done.Took = append(done.Took, of...)
	}
	done.Operations = len(done.Took)
	return done, errors.Join(append(errs, ctx.Err())...)
}

// Milliseconds returns the quantile of how long operations took.
func (d Done) Milliseconds(part float64) float64 {
	return float64(Quantile(d.Took, part).Microseconds()) / 1000
}
