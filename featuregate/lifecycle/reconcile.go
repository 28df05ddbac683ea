// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
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

// entry is what this replica remembers of a Feature that it leads. It belongs to the worker that has the Feature, but for what
// Engine.mu guards.
type entry struct {
	// latest is what this replica wrote last; Engine.mu guards it.
	latest *v1alpha1.Feature
	// rechecked is when those who disagree were asked again, or first seen; Engine.mu guards it.
	rechecked time.Time

	attempt   *attempt
	notBefore time.Time
	written   time.Time
	counted   bool
	question  *question
}

func (e *Engine) entry(name string) *entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.entries[name]
	if out == nil {
		out = &entry{}
		e.entries[name] = out
	}
	return out
}

// drop forgets what was written to a Feature that has been deleted.
func (e *Engine) drop(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	feature, ok := obj.(*v1alpha1.Feature)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if entry := e.entries[feature.Name]; entry != nil && entry.latest != nil && entry.latest.UID == feature.UID {
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
		e.end(e.entry(name))
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
		// Somebody was quicker; what they wrote will be seen.
		e.queue.AddRateLimited(name)
	case ctx.Err() == nil:
		klog.FromContext(ctx).Error(err, "Could not move a Feature on; trying again", "feature", klog.KRef(e.options.Namespace, name))
		e.queue.AddRateLimited(name)
	}
	return true
}

// reconcile does what is to be done about one Feature now, and returns when to look again.
func (e *Engine) reconcile(ctx context.Context, name string) (time.Duration, error) {
	entry := e.entry(name)
	replicas := e.live()
	if leader, ok := leads(replicas, e.options.Namespace, name); !ok || leader.holder != e.identity.holder {
		e.end(entry)
		if entry.attempt != nil && !entry.attempt.hasEnded() {
			return 0, nil // Its end has the Feature looked at again.
		}
		entry.attempt, entry.question, entry.counted = nil, nil, false
		return 0, nil
	}
	feature, err := e.newest(ctx, name, entry)
	if feature == nil || err != nil {
		return 0, err
	}
	seen := e.view(feature, entry, replicas)
	todo := next(feature, seen)
	switch {
	case todo.cancel:
		e.end(entry)
		return 0, nil
	case todo.remove:
		err = e.client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &feature.UID, ResourceVersion: &feature.ResourceVersion}})
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		klog.FromContext(ctx).Info("Removed a Feature that no server knows any more", "feature", klog.KObj(feature), "version", feature.Status.Version)
		return 0, err
	}
	if !apiequality.Semantic.DeepEqual(feature.Status, todo.status) {
		if feature, err = e.write(ctx, feature, todo, entry); err != nil {
			return 0, err
		}
	}
	e.remember(entry, feature, todo, seen.now)
	if todo.start {
		e.start(ctx, feature, entry)
	}
	return todo.after, nil
}

// newest returns the Feature as it was last seen or written by this replica, which creates it if it is not there; nil if there is
// nothing to do.
func (e *Engine) newest(ctx context.Context, name string, entry *entry) (*v1alpha1.Feature, error) {
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
		return nil, nil // It will be seen.
	}
	if err != nil {
		return nil, fmt.Errorf("announce: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("Announced a Feature", "feature", klog.KObj(created))
	e.wrote(entry, created)
	return created, nil
}

func (e *Engine) wrote(entry *entry, feature *v1alpha1.Feature) {
	e.mu.Lock()
	defer e.mu.Unlock()
	entry.latest = feature
}

func (e *Engine) view(feature *v1alpha1.Feature, entry *entry, replicas []replica) view {
	now := e.options.Clock.Now()
	v := view{
		now: now, timings: e.options.Timings, replicas: replicas, local: e.features[feature.Name], retention: e.options.Retention,
		notBefore: entry.notBefore, counted: entry.counted, question: entry.question,
		progressDue: now.Sub(entry.written) >= e.options.Timings.ProgressInterval,
		stale:       e.staleUses(feature, now),
	}
	e.mu.Lock()
	v.warm = !now.Before(e.warmAt)
	v.recheckDue = !entry.rechecked.IsZero() && now.Sub(entry.rechecked) >= e.options.Timings.RecheckInterval
	e.mu.Unlock()
	e.reporters.live(func(lease *coordinationv1.Lease, _ time.Time) {
		v.reporters = append(v.reporters, reporterOf(lease))
	})
	if entry.attempt != nil {
		v.attempt = entry.attempt.view()
	}
	return v
}

// write writes the status, if nobody else has written since it was read.
func (e *Engine) write(ctx context.Context, feature *v1alpha1.Feature, todo change, entry *entry) (*v1alpha1.Feature, error) {
	update := feature.DeepCopy()
	update.Status = todo.status
	written, err := e.client.UpdateStatus(ctx, update, metav1.UpdateOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		e.wrote(entry, nil)
	}
	if err != nil {
		return nil, err
	}
	e.wrote(entry, written)
	if before, after := feature.Status.State, written.Status.State; before != after {
		klog.FromContext(ctx).Info("A Feature has a new state", "feature", klog.KObj(feature), "from", before, "to", after, "source", written.Status.Source)
	}
	return written, nil
}

// remember keeps what the change, which stands now, means for later decisions.
func (e *Engine) remember(entry *entry, feature *v1alpha1.Feature, todo change, now time.Time) {
	entry.written = now
	if todo.took {
		entry.attempt, entry.notBefore = nil, todo.retryAt
	}
	if todo.began {
		entry.question, entry.counted = nil, false
	}
	entry.counted = entry.counted || todo.counted
	if todo.ask {
		entry.question = &question{
			resourceVersion: feature.ResourceVersion, asked: e.options.Clock.Now(), window: todo.window, at: *feature.Status.UseEvaluationTime,
		}
	}
	if todo.extend {
		extended := *entry.question
		extended.at = *feature.Status.UseEvaluationTime
		extended.extensions++
		entry.question = &extended
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch open := feature.Status.UseEvaluationTime != nil; {
	case todo.recheck, todo.disagreement && entry.rechecked.IsZero():
		entry.rechecked = now
	case !todo.disagreement && !open:
		entry.rechecked = time.Time{}
	}
}
