// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// betweenAttempts is how long a cluster that is away is left alone.
const betweenAttempts = time.Second

// wait judges the versions of a Feature, one after another, until its wish has come true.
type wait struct {
	value v1alpha1.Value
	// failedBefore has the tasks that had failed when the wait began, by name, with their attempts: they are given another.
	failedBefore map[string]int32
	generation   int64
	last         *v1alpha1.Feature
	show         func(*v1alpha1.Feature)
}

func newWait(feature *v1alpha1.Feature, value v1alpha1.Value, show func(*v1alpha1.Feature)) *wait {
	w := &wait{value: value, failedBefore: map[string]int32{}, generation: feature.Generation, last: feature, show: show}
	for _, task := range feature.Status.Tasks {
		if task.State == v1alpha1.TaskFailed {
			w.failedBefore[task.Name] = task.Attempts
		}
	}
	return w
}

// judge takes the next version of the Feature. It returns true when the wish has come true, and an error when it will not.
func (w *wait) judge(f *v1alpha1.Feature) (bool, error) {
	w.last = f
	w.show(f)
	if f.Spec.Desired != w.value {
		return false, fmt.Errorf("someone else has changed spec.desired to %s", orNothing(f.Spec.Desired))
	}
	if !f.Status.Dynamic {
		return false, errors.New("the feature's server has made it no longer dynamic; its command line decides now")
	}
	if f.Status.ObservedGeneration < w.generation {
		return false, nil // What the status says is about an older wish.
	}
	wanted := v1alpha1.StateOff
	if w.value == v1alpha1.ValueEnabled {
		wanted = v1alpha1.StateOn
	}
	if f.Status.State == wanted {
		return true, nil
	}
	for _, task := range f.Status.Tasks {
		if task.State != v1alpha1.TaskFailed {
			delete(w.failedBefore, task.Name)
			continue
		}
		if before, known := w.failedBefore[task.Name]; !known || task.Attempts > before {
			return false, fmt.Errorf("the task %s failed (attempt %d): %s; the server will try it again, and `kubectl feature describe %s -n %s` shows how it goes",
				safe(task.Name), task.Attempts, safe(task.Message), f.Name, f.Namespace)
		}
	}
	return false, nil
}

// watch shows the wait what becomes of its Feature. A cluster that goes away for a while is waited for; only an end of the
// context, the wait itself, or a lack of rights ends it.
func (c *cluster) watch(ctx context.Context, w *wait) error {
	for {
		done, err := c.watchOnce(ctx, w)
		if done || err != nil {
			return err
		}
		timer := time.NewTimer(betweenAttempts)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// watchOnce returns without an error when the watch has ended, as the server ends each some time.
func (c *cluster) watchOnce(ctx context.Context, w *wait) (bool, error) {
	features := c.client.FeaturesV1alpha1().Features(w.last.Namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, w.last.Name).String()
	list, err := features.List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return false, final(err)
	}
	if len(list.Items) == 0 {
		return false, errDeleted
	}
	done, err := w.judge(&list.Items[0])
	if done || err != nil {
		return done, err
	}
	changes, err := features.Watch(ctx, metav1.ListOptions{FieldSelector: selector, ResourceVersion: list.ResourceVersion})
	if err != nil {
		return false, final(err)
	}
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case event, open := <-changes.ResultChan():
			if !open || event.Type == watch.Error {
				return false, nil
			}
			feature, ok := event.Object.(*v1alpha1.Feature)
			if !ok {
				continue
			}
			if event.Type == watch.Deleted {
				return false, errDeleted
			}
			if done, err = w.judge(feature); done || err != nil {
				return done, err
			}
		}
	}
}

var errDeleted = errors.New("the feature has been deleted")

// final drops errors that may pass.
func final(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsBadRequest(err) {
		return fmt.Errorf("following the feature: %w", err)
	}
	return nil
}

// progressOf says in one line where the feature stands.
func progressOf(f *v1alpha1.Feature) string {
	state := string(f.Status.State)
	if state == "" {
		state = "not announced"
	}
	line := f.Name + " " + state
	switch {
	case f.Status.ObservedGeneration < f.Generation:
		return line + ", the wish has not been seen by the feature's server yet"
	case len(f.Status.Tasks) > 0:
		task := &f.Status.Tasks[0]
		line += ": " + task.Name
		if drawn := bar(task); drawn != "" {
			line += " " + drawn
		}
		if task.State != v1alpha1.TaskRunning {
			line += " " + string(task.State)
		}
		if more := len(f.Status.Tasks) - 1; more > 0 {
			line += fmt.Sprintf(" (%d more to do)", more)
		}
		if message := strings.TrimSpace(task.Message); message != "" {
			line += ", " + message
		}
	default:
		if conflict := conditionOf(f, v1alpha1.FeatureConflict); conflict.Status == metav1.ConditionTrue {
			line += ", in conflict: " + conflict.Message
		}
	}
	return safe(line)
}

func orNothing(value v1alpha1.Value) string {
	if value == "" {
		return "nothing"
	}
	return string(value)
}
