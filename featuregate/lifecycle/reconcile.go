// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// featureMemory is what this replica remembers of a Feature that it leads. The worker that has the Feature owns it, except for the fields
// that Engine.mu guards.
type featureMemory struct {
	// latest is the Feature as this replica wrote it last; Engine.mu guards it.
	latest *v1alpha1.Feature
	// rechecked is when reporters that disagree were polled again, or first observed; Engine.mu guards it.
	rechecked time.Time

	taskRun   *taskRun
	notBefore time.Time
	written   time.Time
	counted   bool
	poll      *usePoll
}

func (e *Engine) memory(name string) *featureMemory {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.memories[name]
	if out == nil {
		out = &featureMemory{}
		e.memories[name] = out
	}
	return out
}

// forgetDeleted drops the memory of the last write to a Feature that has been deleted.
func (e *Engine) forgetDeleted(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	feature, ok := obj.(*v1alpha1.Feature)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if entry := e.memories[feature.Name]; entry != nil && entry.latest != nil && entry.latest.UID == feature.UID {
		entry.latest = nil
	}
}

func (e *Engine) workNext(ctx context.Context) bool {
	name, quit := e.queue.Get()
	if quit {
		return false
	}
	defer e.queue.Done(name)
	if ctx.Err() != nil {
		e.cancelTask(e.memory(name))
		return true
	}
	after, err := e.reconcile(ctx, name)
	switch {
	case err == nil:
		e.queue.Forget(name)
		if after > 0 {
			e.queue.AddAfter(name, after)
		}
	case apierrors.IsConflict(err):
		// The object that was written meanwhile is about to be observed.
		e.queue.AddRateLimited(name)
	case ctx.Err() == nil:
		klog.FromContext(ctx).Error(err, "Could not reconcile a Feature; trying again", "feature", klog.KRef(e.options.Namespace, name))
		e.queue.AddRateLimited(name)
	}
	return true
}

// reconcile reads one Feature, decides, writes the new status and starts the first task. It returns the delay until the next decision.
func (e *Engine) reconcile(ctx context.Context, name string) (time.Duration, error) {
	entry := e.memory(name)
	replicas := e.liveReplicas()
	if leader, ok := assignee(replicas, e.options.Namespace, name); !ok || leader.holder != e.identity.Holder {
		e.cancelTask(entry)
		if entry.taskRun != nil && !entry.taskRun.hasEnded() {
			return 0, nil // The end of the run queues the Feature again.
		}
		entry.taskRun, entry.poll, entry.counted = nil, nil, false
		return 0, nil
	}
	feature, err := e.latest(ctx, name, entry)
	if feature == nil || err != nil {
		return 0, err
	}
	seen := e.input(feature, entry, replicas)
	todo := decide(feature, seen)
	switch {
	case todo.cancel:
		e.cancelTask(entry)
		return 0, nil
	case todo.remove:
		err = e.client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &feature.UID, ResourceVersion: &feature.ResourceVersion}})
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		klog.FromContext(ctx).Info("Deleted a Feature that no live server knows", "feature", klog.KObj(feature), "version", feature.Status.Version)
		return 0, err
	}
	if !apiequality.Semantic.DeepEqual(feature.Status, todo.status) {
		if feature, err = e.write(ctx, feature, todo, entry); err != nil {
			return 0, err
		}
	}
	e.remember(entry, feature, todo, seen.now)
	if todo.start {
		e.startTask(ctx, feature, entry)
	}
	return todo.requeueAfter, nil
}

// latest returns the Feature as this replica last observed or wrote it, and creates a missing one; nil if there is nothing to do.
func (e *Engine) latest(ctx context.Context, name string, entry *featureMemory) (*v1alpha1.Feature, error) {
	obj, found, err := e.informer.GetStore().GetByKey(e.options.Namespace + "/" + name)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	latest := entry.latest
	e.mu.Unlock()
	if found {
		cached := obj.(*v1alpha1.Feature)
		if latest != nil && latest.UID == cached.UID {
			order, invalid := resourceversion.CompareResourceVersion(latest.ResourceVersion, cached.ResourceVersion)
			if invalid == nil && order > 0 {
				return latest, nil
			}
		}
		return cached, nil
	}
	if latest != nil || e.features[name] == nil {
		return latest, nil
	}
	created, err := e.client.Create(ctx, &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		return nil, nil // The object is about to be observed.
	}
	if err != nil {
		return nil, fmt.Errorf("create feature %s/%s: %w", e.options.Namespace, name, err)
	}
	klog.FromContext(ctx).V(2).Info("Announced a Feature", "feature", klog.KObj(created))
	e.setLatest(entry, created)
	return created, nil
}

func (e *Engine) setLatest(entry *featureMemory, feature *v1alpha1.Feature) {
	e.mu.Lock()
	defer e.mu.Unlock()
	entry.latest = feature
}

func (e *Engine) input(feature *v1alpha1.Feature, entry *featureMemory, replicas []replica) input {
	now := e.options.Clock.Now()
	v := input{
		now: now, timings: e.options.Timings, replicas: replicas, definition: e.features[feature.Name], retention: e.options.Retention,
		notBefore: entry.notBefore, counted: entry.counted, poll: entry.poll,
		progressDue: now.Sub(entry.written) >= e.options.Timings.ProgressInterval,
		staleUses:   e.staleUses(feature, now),
	}
	e.mu.Lock()
	v.warm = !now.Before(e.warmAt)
	v.recheckDue = !entry.rechecked.IsZero() && now.Sub(entry.rechecked) >= e.options.Timings.RecheckInterval
	e.mu.Unlock()
	e.reporterLeases.Live(func(lease *coordinationv1.Lease) {
		v.reporters = append(v.reporters, reporterOf(lease))
	})
	if entry.taskRun != nil {
		v.taskRun = entry.taskRun.state()
	}
	return v
}

// write writes the status, on condition that the Feature has not changed since it was read.
func (e *Engine) write(ctx context.Context, feature *v1alpha1.Feature, todo decision, entry *featureMemory) (*v1alpha1.Feature, error) {
	update := feature.DeepCopy()
	update.Status = todo.status
	written, err := e.client.UpdateStatus(ctx, update, metav1.UpdateOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		e.setLatest(entry, nil)
	}
	if err != nil {
		return nil, err
	}
	e.setLatest(entry, written)
	if before, after := feature.Status.State, written.Status.State; before != after {
		klog.FromContext(ctx).Info("State of a Feature changed", "feature", klog.KObj(feature), "from", before, "to", after, "source", written.Status.Source)
	}
	return written, nil
}

// remember keeps what later decisions need of this one, which has been written.
func (e *Engine) remember(entry *featureMemory, feature *v1alpha1.Feature, todo decision, now time.Time) {
	entry.written = now
	if todo.outcomeTaken {
		entry.taskRun, entry.notBefore = nil, todo.retryAt
	}
	if todo.transitionStarted {
		entry.poll, entry.counted = nil, false
	}
	entry.counted = entry.counted || todo.counted
	if todo.pollOpened {
		entry.poll = &usePoll{
			resourceVersion: feature.ResourceVersion, openedAt: e.options.Clock.Now(), window: todo.pollWindow, evaluationTime: *feature.Status.UseEvaluationTime,
		}
	}
	if todo.pollExtended {
		extended := *entry.poll
		extended.evaluationTime = *feature.Status.UseEvaluationTime
		extended.extensions++
		entry.poll = &extended
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch open := feature.Status.UseEvaluationTime != nil; {
	case todo.rechecking, todo.disagreement && entry.rechecked.IsZero():
		entry.rechecked = now
	case !todo.disagreement && !open:
		entry.rechecked = time.Time{}
	}
}

// taskRun is one attempt at a task by this process.
type taskRun struct {
	marked v1alpha1.FeatureStatus // the status that marks the run
	cancel context.CancelFunc

	mu              sync.Mutex
	ended, canceled bool
	err             error
	report          taskReport
}

func (a *taskRun) hasEnded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

func (a *taskRun) state() *taskRunState {
	a.mu.Lock()
	defer a.mu.Unlock()
	task := a.marked.Tasks[0]
	return &taskRunState{
		state: a.marked.State, task: task.Name, attempts: task.Attempts, started: *task.LastAttemptTime,
		ended: a.ended, canceled: a.canceled, err: a.err, report: a.report,
	}
}

// isMarkedIn reports whether a status still marks this run.
func (a *taskRun) isMarkedIn(status *v1alpha1.FeatureStatus) bool {
	if status.State != a.marked.State || len(status.Tasks) == 0 {
		return false
	}
	ours, theirs := a.marked.Tasks[0], status.Tasks[0]
	return ours.Name == theirs.Name && ours.Attempts == theirs.Attempts && theirs.LastAttemptTime.Equal(ours.LastAttemptTime)
}

// startTask starts the first task, which the Feature marks as running.
func (e *Engine) startTask(ctx context.Context, feature *v1alpha1.Feature, entry *featureMemory) {
	ctx, cancel := context.WithCancel(ctx)
	a := &taskRun{marked: *feature.Status.DeepCopy(), cancel: cancel}
	entry.taskRun = a
	run := e.taskFunction(feature)
	progress := &Progress{
		clock: e.options.Clock,
		report: func(change func(*taskReport)) {
			a.mu.Lock()
			defer a.mu.Unlock()
			change(&a.report)
		},
		confirm: func(ctx context.Context) error {
			now, err := e.client.Get(ctx, feature.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("confirm the task of feature %s: %w", feature.Name, err)
			}
			if now.UID != feature.UID || !a.isMarkedIn(&now.Status) {
				cancel()
				return fmt.Errorf("the attempt at the task was superseded: %w", context.Canceled)
			}
			return ctx.Err()
		},
	}
	logger := klog.FromContext(ctx)
	logger.V(2).Info("Started a task", "feature", klog.KObj(feature), "state", a.marked.State, "task", a.marked.Tasks[0].Name, "attempt", a.marked.Tasks[0].Attempts)
	e.taskRuns.Go(func() {
		err := recoverPanic(ctx, func() error { return run(ctx, progress) })
		a.mu.Lock()
		a.ended, a.canceled, a.err = true, ctx.Err() != nil, err
		a.mu.Unlock()
		cancel()
		logger.V(2).Info("Ended a task", "feature", klog.KObj(feature), "task", a.marked.Tasks[0].Name, "attempt", a.marked.Tasks[0].Attempts, "err", err)
		e.queue.Add(feature.Name)
	})
}

// taskFunction returns the function of the first task.
func (e *Engine) taskFunction(feature *v1alpha1.Feature) func(context.Context, *Progress) error {
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

// recoverPanic turns a panic of a task into an error, so that other features and the server go on.
func recoverPanic(ctx context.Context, run func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panicked: %v", r)
			klog.FromContext(ctx).Error(err, "A task of a feature panicked", "stack", string(debug.Stack()))
		}
	}()
	return run()
}

// cancelTask cancels a task run; its end queues the Feature again.
func (e *Engine) cancelTask(entry *featureMemory) {
	if entry.taskRun != nil {
		entry.taskRun.cancel()
	}
}
