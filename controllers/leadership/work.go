// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/klog/v2"
)

// work is the runnables of one term. It is over when all of them have returned.
type work struct {
	group  string
	holder string
	// began is called when the runnables have been made and are about to run.
	began func()
	// over is called when all runnables have returned.
	over func()
	// panicked is called for every panic of a runnable.
	panicked func()

	// ending is closed when the first runnable has returned, or there will be none; finished when the last one has. failure is why the
	// work ended by itself, and valid then.
	ending, finished chan struct{}
	failure          error
	first            sync.Once

	mu      sync.Mutex
	running []string
}

func newWork(g *group, term *Term) *work {
	return &work{
		group: g.Name, holder: term.fence.Holder, began: g.status.setLeading, over: term.close,
		panicked: func() { g.metrics.panics.WithLabelValues(g.Name).Inc() },
		ending:   make(chan struct{}), finished: make(chan struct{}),
	}
}

// errReturned is why a term ends whose runnable has returned although nobody told it to.
var errReturned = errors.New("returned before its term ended; a runner goes on until its context ends")

// RunWithoutLease makes runnables and runs them until the context ends or one of them returns, fails or panics, which is the error. It
// is for a server without Leases that is alone; Elector.Run is for all others.
func RunWithoutLease(ctx context.Context, newRunnables func() ([]Runnable, error)) error {
	w := &work{
		group: "without-lease", began: func() {}, over: func() {}, panicked: func() {}, ending: make(chan struct{}), finished: make(chan struct{}),
	}
	w.run(ctx, newRunnables)
	return w.failure
}

// run makes the runnables and runs them until the context ends or one of them returns.
func (w *work) run(ctx context.Context, newRunnables func() ([]Runnable, error)) {
	defer close(w.finished)
	defer w.takeBack(ctx)
	runnables, err := w.build(ctx, newRunnables)
	if err != nil {
		w.ends(err)
		return
	}
	if ctx.Err() != nil {
		w.ends(nil)
		return
	}
	w.began()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for _, runnable := range runnables {
		w.add(runnable.Name)
	}
	for _, runnable := range runnables {
		all.Go(func() {
			defer cancel()
			labelled(ctx, w.group, w.holder, runnable.Name, func(ctx context.Context) {
				ctx = w.withCrash(ctx, runnable.Name, cancel)
				// Also where the runnable has ended its goroutine, as t.FailNow does.
				err := fmt.Errorf("runner %s %w", runnable.Name, errReturned)
				defer func() {
					w.ends(err)
					w.remove(runnable.Name)
				}()
				err = w.runOne(ctx, runnable)
			})
		})
	}
	if len(runnables) == 0 {
		<-ctx.Done()
	}
	all.Wait()
}

// withCrash returns a context whose runnable ends the term when one of its goroutines panics.
func (w *work) withCrash(ctx context.Context, runnable string, cancel context.CancelFunc) context.Context {
	return context.WithValue(ctx, crashKey{}, func(err error) {
		w.panicked()
		err = fmt.Errorf("runner %s: %w", runnable, err)
		if !w.ends(err) {
			klog.FromContext(ctx).Error(err, "A goroutine has panicked in a term that is ending")
		}
		cancel()
	})
}

// ends notes why the first runnable has returned; nil when it was told to. It reports whether the runnable was the first.
func (w *work) ends(err error) (first bool) {
	w.first.Do(func() {
		first = true
		w.failure = err
		close(w.ending)
	})
	return first
}

// takeBack calls what the runnables wanted to be called at the end.
func (w *work) takeBack(ctx context.Context) {
	const name = "OnEnd"
	w.add(name)
	defer w.remove(name)
	labelled(ctx, w.group, w.holder, name, func(context.Context) {
		defer func() {
			if err := w.recovered(recover()); err != nil {
				klog.FromContext(ctx).Error(err, "What a term has called at its end has panicked")
			}
		}()
		w.over()
	})
}

func (w *work) build(ctx context.Context, newRunnables func() ([]Runnable, error)) (runnables []Runnable, err error) {
	w.add("New")
	defer w.remove("New")
	labelled(ctx, w.group, w.holder, "New", func(context.Context) {
		defer func() { err = errors.Join(err, w.recovered(recover())) }()
		runnables, err = newRunnables()
	})
	if err != nil {
		return nil, fmt.Errorf("build the runnables: %w", err)
	}
	for i, runnable := range runnables {
		if runnable.Run == nil {
			return nil, fmt.Errorf("build the runnables: runnable %d (%q) has no Run", i, runnable.Name)
		}
	}
	return runnables, nil
}

// runOne returns why the runnable ended the term, or nil when it was told to end.
func (w *work) runOne(ctx context.Context, runnable Runnable) (err error) {
	defer func() {
		if panicked := w.recovered(recover()); panicked != nil {
			err = fmt.Errorf("runner %s: %w", runnable.Name, panicked)
		}
	}()
	err = runnable.Run(ctx)
	switch {
	case ctx.Err() != nil:
		return nil // what it says about being told to end is no failure
	case err == nil:
		return fmt.Errorf("runner %s %w", runnable.Name, errReturned)
	}
	return fmt.Errorf("runner %s: %w", runnable.Name, err)
}

func (w *work) recovered(value any) error {
	if value == nil {
		return nil
	}
	w.panicked()
	return crashError(value)
}

func (w *work) add(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = append(w.running, name)
}

func (w *work) remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.running, name); i >= 0 {
		w.running = slices.Delete(w.running, i, i+1)
	}
}

// unfinished names the runnables that have not returned.
func (w *work) unfinished() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.running)
}
