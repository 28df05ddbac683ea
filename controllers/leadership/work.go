// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// work is the runners of one term. It is over when all of them have returned.
type work struct {
	group  string
	holder string
	// began is called when the runners have been made and are about to run.
	began func()
	// panicked is called for every panic of a runner.
	panicked func()

	// ending is closed when the first runner has returned, or there will be none; finished when the last one has. failure is why the
	// work ended by itself, and valid then.
	ending, finished chan struct{}
	failure          error
	first            sync.Once

	mu      sync.Mutex
	running []string
}

func newWork(g *group, term *Term) *work {
	return &work{
		group: g.Name, holder: term.fence.Holder, began: g.status.begins,
		panicked: func() { g.metrics.panics.WithLabelValues(g.Name).Inc() },
		ending:   make(chan struct{}), finished: make(chan struct{}),
	}
}

// errReturned is why a term ends whose runner has returned although nobody told it to.
var errReturned = errors.New("returned before its term ended; a runner goes on until its context ends")

// run makes the runners and runs them until the context ends or one of them returns.
func (w *work) run(ctx context.Context, newRunners func() ([]Runner, error)) {
	defer close(w.finished)
	runners, err := w.build(ctx, newRunners)
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
	for _, runner := range runners {
		w.add(runner.Name)
	}
	for _, runner := range runners {
		all.Go(func() {
			labelled(ctx, w.group, w.holder, runner.Name, func(ctx context.Context) {
				w.ends(w.runOne(ctx, runner))
				w.remove(runner.Name)
			})
			cancel()
		})
	}
	if len(runners) == 0 {
		<-ctx.Done()
	}
	all.Wait()
}

// ends notes why the first runner has returned; nil when it was told to.
func (w *work) ends(err error) {
	w.first.Do(func() {
		w.failure = err
		close(w.ending)
	})
}

func (w *work) build(ctx context.Context, newRunners func() ([]Runner, error)) (runners []Runner, err error) {
	w.add("New")
	defer w.remove("New")
	labelled(ctx, w.group, w.holder, "New", func(context.Context) {
		defer func() { err = errors.Join(err, w.recovered(recover())) }()
		runners, err = newRunners()
	})
	if err != nil {
		return nil, fmt.Errorf("make the runners: %w", err)
	}
	for i, runner := range runners {
		if runner.Run == nil {
			return nil, fmt.Errorf("make the runners: runner %d (%q) has no Run", i, runner.Name)
		}
	}
	return runners, nil
}

// runOne returns why the runner ended the term, or nil when it was told to end.
func (w *work) runOne(ctx context.Context, runner Runner) (err error) {
	defer func() {
		if panicked := w.recovered(recover()); panicked != nil {
			err = fmt.Errorf("runner %s: %w", runner.Name, panicked)
		}
	}()
	err = runner.Run(ctx)
	switch {
	case ctx.Err() != nil:
		return nil // what it says about being told to end is no failure
	case err == nil:
		return fmt.Errorf("runner %s %w", runner.Name, errReturned)
	}
	return fmt.Errorf("runner %s: %w", runner.Name, err)
}

func (w *work) recovered(value any) error {
	if value == nil {
		return nil
	}
	w.panicked()
	return fmt.Errorf("panic: %v\n%s", value, debug.Stack())
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

// unfinished names the runners that have not returned.
func (w *work) unfinished() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.running)
}
