// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// attempt is one try at a task by this process.
type attempt struct {
	of     v1alpha1.FeatureStatus // as the attempt was marked
	cancel context.CancelFunc

	mu              sync.Mutex
	ended, canceled bool
	err             error
	report          report
}

func (a *attempt) hasEnded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

func (a *attempt) view() *attemptView {
	a.mu.Lock()
	defer a.mu.Unlock()
	task := a.of.Tasks[0]
	return &attemptView{
		state: a.of.State, task: task.Name, attempts: task.Attempts, started: *task.LastAttemptTime,
		ended: a.ended, canceled: a.canceled, err: a.err, report: a.report,
	}
}

// wanted tells whether a Feature still marks this attempt.
func (a *attempt) wanted(status *v1alpha1.FeatureStatus) bool {
	if status.State != a.of.State || len(status.Tasks) == 0 {
		return false
	}
	ours, theirs := a.of.Tasks[0], status.Tasks[0]
	return ours.Name == theirs.Name && ours.Attempts == theirs.Attempts && theirs.LastAttemptTime.Equal(ours.LastAttemptTime)
}

// start begins the attempt at the first task, which the Feature marks as running.
func (e *Engine) start(ctx context.Context, feature *v1alpha1.Feature, entry *entry) {
	ctx, cancel := context.WithCancel(ctx)
	a := &attempt{of: *feature.Status.DeepCopy(), cancel: cancel}
	entry.attempt = a
	run := e.function(feature)
	progress := &Progress{
		clock: e.options.Clock,
		report: func(change func(*report)) {
			a.mu.Lock()
			defer a.mu.Unlock()
			change(&a.report)
		},
		confirm: func(ctx context.Context) error {
			now, err := e.client.Get(ctx, feature.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("find out whether the task is still to be done: %w", err)
			}
			if now.UID != feature.UID || !a.wanted(&now.Status) {
				cancel()
				return fmt.Errorf("the task is no longer to be done by this attempt: %w", context.Canceled)
			}
			return ctx.Err()
		},
	}
	logger := klog.FromContext(ctx)
	logger.V(2).Info("Begins a task", "feature", klog.KObj(feature), "state", a.of.State, "task", a.of.Tasks[0].Name, "attempt", a.of.Tasks[0].Attempts)
	e.attempts.Go(func() {
		err := protect(ctx, func() error { return run(ctx, progress) })
		a.mu.Lock()
		a.ended, a.canceled, a.err = true, ctx.Err() != nil, err
		a.mu.Unlock()
		cancel()
		logger.V(2).Info("Ended a task", "feature", klog.KObj(feature), "task", a.of.Tasks[0].Name, "attempt", a.of.Tasks[0].Attempts, "err", err)
		e.queue.Add(feature.Name)
	})
}

// function returns what the first task does.
func (e *Engine) function(feature *v1alpha1.Feature) func(context.Context, *Progress) error {
	local, first := e.features[feature.Name], feature.Status.Tasks[0].Name
	if first == WaitForUses {
		return local.count
	}
	if task, ok := local.task(valueOf(feature.Status.State), first); ok {
		return task.Run
	}
	return func(context.Context, *Progress) error {
		return fmt.Errorf("this version of the server has no task %s", first)
	}
}

// protect turns a panic of a task into an error: other features, and the server, have nothing to do with it.
func protect(ctx context.Context, run func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panicked: %v", r)
			klog.FromContext(ctx).Error(err, "A task of a feature panicked", "stack", string(debug.Stack()))
		}
	}()
	return run()
}

// end has a running attempt end; when it has, the Feature is looked at again.
func (e *Engine) end(entry *entry) {
	if entry.attempt != nil {
		entry.attempt.cancel()
	}
}
