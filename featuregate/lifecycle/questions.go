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
	// name is how people know it: component/instance.
	name string
	// observed is up to which resourceVersion it has answered; empty if it has not.
	observed string
}

func reporterOf(lease *coordinationv1.Lease) reporter {
	instance := ptr.Deref(lease.Spec.HolderIdentity, "")
	if instance == "" {
		instance = lease.Name
	}
	return reporter{name: lease.Labels[featuregate.LabelComponent] + "/" + instance, observed: lease.Annotations[featuregate.AnnotationObserved]}
}

// question is whether somebody still sees a feature with the value that it is leaving.
type question struct {
	// resourceVersion is that of the Feature with the question; who has observed that much has answered.
	resourceVersion string
	// asked is when, and window for how long nobody's silence means anything.
	asked  time.Time
	window time.Duration
	// at is when the answers are read, as the Feature says.
	at metav1.Time
	// extensions is how often those got more time who had not answered.
	extensions int
}

func (q *question) answered(by reporter) bool {
	order, err := resourceversion.CompareResourceVersion(by.observed, q.resourceVersion)
	return err == nil && order >= 0
}

// waitForUses asks who uses the feature and reads the answers. It tells whether the task is done.
func (d *decision) waitForUses(task *v1alpha1.Task) bool {
	if d.status.State == v1alpha1.StateTurningOff && d.local.Count != nil && !d.view.counted {
		d.countFirst(task)
		return false
	}
	q, at := d.question, d.status.UseEvaluationTime
	if q == nil || at == nil || !at.Equal(&q.at) {
		d.putQuestion(task)
		return false
	}
	if open := q.window - d.now.Sub(q.asked); open > 0 {
		d.lookAgain(open)
		return false
	}
	if early := at.Sub(d.now); early > 0 && q.extensions == 0 {
		d.lookAgain(early)
		return false
	}
	if len(d.disagreeing()) > 0 {
		d.putQuestion(task)
		return false
	}
	var missing []string
	for _, r := range d.reporters {
		if !q.answered(r) {
			missing = append(missing, r.name)
		}
	}
	if len(missing) == 0 {
		return true
	}
	if !d.now.Before(at.Time) {
		d.extend = true
		d.openUntil(d.timings.window(len(d.reporters)) << min(q.extensions, 4))
		slices.Sort(missing)
		task.Message = fmt.Sprintf("waits for %d live reporters to answer, or their Leases to expire: %s", len(missing), few(missing))
	}
	d.lookAgain(d.timings.Poll)
	return false
}

// countFirst has counted what uses the feature, before anything else is done about turning it off.
func (d *decision) countFirst(task *v1alpha1.Task) {
	switch {
	case d.attempt != nil:
	case d.now.Before(d.notBefore):
		d.lookAgain(d.notBefore.Sub(d.now))
	default:
		task.State = v1alpha1.TaskRunning
		task.Attempts++
		task.LastAttemptTime = &metav1.Time{Time: d.now.Truncate(time.Second)}
		d.start, d.claim = true, true
	}
}

// disagreeing lists those who see another value than that of the state.
func (d *decision) disagreeing() []string {
	var out []string
	value := valueOf(d.status.State)
	for _, use := range d.status.Uses {
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

// forgetDisagreeing takes the answers to former questions away: who still disagrees says so again.
func (d *decision) forgetDisagreeing() {
	value := valueOf(d.status.State)
	d.status.Uses = slices.DeleteFunc(slices.Clone(d.status.Uses), func(use v1alpha1.Use) bool { return use.Value != value })
	if len(d.status.Uses) == 0 {
		d.status.Uses = nil
	}
}

// putQuestion asks, or asks again with more time for the answers, as somebody disagreed.
func (d *decision) putQuestion(task *v1alpha1.Task) {
	disagreeing := d.disagreeing()
	task.Message = fmt.Sprintf("asked %d live reporters", len(d.reporters))
	d.window = d.timings.window(len(d.reporters))
	if d.question != nil && len(disagreeing) > 0 {
		task.Message = fmt.Sprintf("asked again, since %d disagreed: %s", len(disagreeing), few(disagreeing))
		d.window <<= min(task.Attempts, 2)
	}
	d.forgetDisagreeing()
	task.State = v1alpha1.TaskRunning
	task.Attempts++
	task.LastAttemptTime = &metav1.Time{Time: d.now.Truncate(time.Second)}
	d.openUntil(d.window)
	d.ask = true
	d.lookAgain(d.window)
}

// openUntil sets when answers are read: in whole seconds, as the API has them, and never the same time as before, by whose change
// reporters know that they are asked.
func (d *decision) openUntil(after time.Duration) {
	at := metav1.NewTime(d.now.Add(after + time.Second - time.Nanosecond).Truncate(time.Second))
	if before := d.status.UseEvaluationTime; before != nil && !at.After(before.Time) {
		at.Time = before.Add(time.Second)
	}
	d.status.UseEvaluationTime = &at
}

// recheckUses asks those again, from time to time, who disagree with a feature that is On or Off: they may have changed their minds.
func (d *decision) recheckUses() {
	d.disagreement = len(d.disagreeing()) > 0
	if at := d.status.UseEvaluationTime; at != nil {
		if early := at.Sub(d.now); early > 0 {
			d.lookAgain(early)
			return
		}
		d.status.UseEvaluationTime = nil
	} else if d.disagreement && d.recheckDue {
		d.recheck = true
		d.openUntil(d.timings.window(len(d.reporters)))
		d.lookAgain(d.timings.AnswerWindow)
	}
	if d.disagreement {
		d.lookAgain(d.timings.RecheckInterval)
	}
}
