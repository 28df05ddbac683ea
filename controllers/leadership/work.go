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

	"k8s.io/klog/v2"
)

// work is the runners of one term. It is over when all of them have returned.
type work struct {
	group  string
	holder string
	// began is called when the runners have been made and are about to run.
	began func()
	// over is called when all runners have returned.
	over func()
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
		group: g.Name, holder: term.fence.Holder, began: g.status.begins, over: term.close,
		panicked: func() { g.metrics.panics.WithLabelValues(g.Name).Inc() },
		ending:   make(chan struct{}), finished: make(chan struct{}),
	}
}

// errReturned is why a term ends whose runner has returned although nobody told it to.
var errReturned = errors.New("returned before its term ended; a runner goes on until its context ends")

// run makes the runners and runs them until the context ends or one of them returns.
func (w *work) run(ctx context.Context, newRunners func() ([]Runner, error)) {
	defer close(w.finished)
	defer w.takeBack(ctx)
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
			defer cancel()
			labelled(ctx, w.group, w.holder, runner.Name, func(ctx context.Context) {
				// Also where the runner has ended its goroutine, as t.FailNow does.
				err := fmt.Errorf("runner %s %w", runner.Name, errReturned)
				defer func() {
					w.ends(err)
					w.remove(runner.Name)
				}()
				err = w.runOne(ctx, runner)
			})
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

// takeBack calls what the runners wanted to be called at the end.
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
