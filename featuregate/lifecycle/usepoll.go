// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
)

// reporter is a live process that reports what it uses.
type reporter struct {
	// name is component/instance.
	name string
	// observed is the resourceVersion up to which it has answered; empty if it has not answered.
	observed string
}

func reporterOf(lease *coordinationv1.Lease) reporter {
	instance := ptr.Deref(lease.Spec.HolderIdentity, "")
	if instance == "" {
		instance = lease.Name
	}
	return reporter{name: lease.Annotations[featuregate.AnnotationComponent] + "/" + instance, observed: lease.Annotations[featuregate.AnnotationObserved]}
}

// usePoll is a question to all reporters: who still sees the feature with the value that it is leaving.
type usePoll struct {
	// resourceVersion is that of the Feature with the question; a reporter that has observed it has answered.
	resourceVersion string
	// openedAt is when the poll was opened; answers are due after window.
	openedAt time.Time
	window   time.Duration
	// evaluationTime is when the answers are read, as published in the Feature.
	evaluationTime metav1.Time
	// extensions is how often the poll was extended for missing answers.
	extensions int
}

func (q *usePoll) isAnsweredBy(by reporter) bool {
	order, err := resourceversion.CompareResourceVersion(by.observed, q.resourceVersion)
	return err == nil && order >= 0
}

// waitForUses polls the reporters and reads the answers. It reports whether the task is done.
func (d *decider) waitForUses(task *v1alpha1.Task) bool {
	if d.out.status.State == v1alpha1.StateTurningOff && d.in.definition.Count != nil && !d.counted() {
		d.countReferences(task)
		return false
	}
	q, at := d.poll(), d.out.status.UseEvaluationTime
	if q == nil || at == nil || !at.Equal(&q.evaluationTime) {
		d.openPoll(task)
		return false
	}
	if open := q.window - d.in.now.Sub(q.openedAt); open > 0 {
		d.out.requeue(open)
		return false
	}
	if early := at.Sub(d.in.now); early > 0 && q.extensions == 0 {
		d.out.requeue(early)
		return false
	}
	if len(d.disagreeing()) > 0 {
		d.openPoll(task)
		return false
	}
	var missing []string
	for _, r := range d.in.reporters {
		if !q.isAnsweredBy(r) {
			missing = append(missing, r.name)
		}
	}
	if len(missing) == 0 {
		return true
	}
	if !d.in.now.Before(at.Time) {
		d.out.pollExtended = true
		d.setEvaluationTime(d.in.timings.window(len(d.in.reporters)) << min(q.extensions, 4))
		slices.Sort(missing)
		task.Message = fmt.Sprintf("waits for %d live reporters to answer, or their Leases to expire: %s", len(missing), joinFew(missing))
	}
	d.out.requeue(d.in.timings.Poll)
	return false
}

// countReferences starts the count of references, which precedes the poll when a feature is turned off.
func (d *decider) countReferences(task *v1alpha1.Task) {
	switch {
	case d.taskRun() != nil:
	case d.in.now.Before(d.notBefore()):
		d.out.requeue(d.notBefore().Sub(d.in.now))
	default:
		task.State = v1alpha1.TaskRunning
		task.Attempts++
		task.LastAttemptTime = &metav1.Time{Time: d.in.now.Truncate(time.Second)}
		d.out.start = true
	}
}

// disagreeing lists the uses with another value than that of the state.
func (d *decider) disagreeing() []string {
	var out []string
	value := valueOf(d.out.status.State)
	for _, use := range d.out.status.Uses {
		if use.Value == value {
			continue
		}
		who := use.Component + " " + use.Version
		if use.Reporter != "" {
			who += " (such as " + use.Reporter + ")"
		}
		out = append(out, fmt.Sprintf("%s sees it as %s", who, use.Value))
	}
	slices.Sort(out)
	return out
}

// removeDisagreeing removes the answers to former polls: a reporter that still disagrees reports again.
func (d *decider) removeDisagreeing() {
	value := valueOf(d.out.status.State)
	d.out.status.Uses = slices.DeleteFunc(slices.Clone(d.out.status.Uses), func(use v1alpha1.Use) bool { return use.Value != value })
	if len(d.out.status.Uses) == 0 {
		d.out.status.Uses = nil
	}
}

// openPoll opens a poll, or repeats it with more time for the answers after a disagreement.
func (d *decider) openPoll(task *v1alpha1.Task) {
	disagreeing := d.disagreeing()
	task.Message = fmt.Sprintf("asked %d live reporters", len(d.in.reporters))
	d.out.pollWindow = d.in.timings.window(len(d.in.reporters))
	if d.poll() != nil && len(disagreeing) > 0 {
		task.Message = fmt.Sprintf("asked again, since %d disagreed: %s", len(disagreeing), joinFew(disagreeing))
		d.out.pollWindow <<= min(task.Attempts, 2)
	}
	d.removeDisagreeing()
	task.State = v1alpha1.TaskRunning
	task.Attempts++
	task.LastAttemptTime = &metav1.Time{Time: d.in.now.Truncate(time.Second)}
	d.setEvaluationTime(d.out.pollWindow)
	d.out.pollOpened = true
	d.out.requeue(d.out.pollWindow)
}

// setEvaluationTime sets when answers are read: in whole seconds, as the API has them, and later than before, since its change is how
// reporters notice a poll.
func (d *decider) setEvaluationTime(after time.Duration) {
	at := metav1.NewTime(d.in.now.Add(after + time.Second - time.Nanosecond).Truncate(time.Second))
	if before := d.out.status.UseEvaluationTime; before != nil && !at.After(before.Time) {
		at.Time = before.Add(time.Second)
	}
	d.out.status.UseEvaluationTime = &at
}

// recheckUses repeats the poll at intervals while a reporter disagrees with a feature that is On or Off.
func (d *decider) recheckUses() {
	d.out.disagreement = len(d.disagreeing()) > 0
	if at := d.out.status.UseEvaluationTime; at != nil {
		if early := at.Sub(d.in.now); early > 0 {
			d.out.requeue(early)
			return
		}
		d.out.status.UseEvaluationTime = nil
	} else if d.out.disagreement && d.in.recheckDue {
		d.out.rechecking = true
		d.setEvaluationTime(d.in.timings.window(len(d.in.reporters)))
		d.out.requeue(d.in.timings.AnswerWindow)
	}
	if d.out.disagreement {
		d.out.requeue(d.in.timings.RecheckInterval)
	}
}
