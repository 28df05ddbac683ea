// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// view is all that a decision about a Feature depends on, besides the Feature.
type view struct {
	now     time.Time
	timings Timings
	// warm tells that this replica has run long enough to have seen all others.
	warm bool
	// replicas and reporters are the live ones.
	replicas  []replica
	reporters []reporter
	// local is the feature as this replica knows it; nil if it does not.
	local     *Feature
	retention int
	// attempt is this replica's at a task of the feature; nil if none was begun, or its outcome has been taken.
	attempt *attemptView
	// progressDue tells that what the attempt has reported may be written again.
	progressDue bool
	// notBefore is when a task may be tried again.
	notBefore time.Time
	// counted tells that what uses the feature was counted in this transition.
	counted bool
	// question is what this replica asked last; nil if it has not.
	question *question
	// recheckDue tells that those who disagree with a settled feature may be asked again.
	recheckDue bool
}

// attemptView is how an attempt stands.
type attemptView struct {
	// state is that of the feature when it began, and the rest how the task was marked.
	state    v1alpha1.State
	task     string
	attempts int32
	started  metav1.Time
	// ended tells that it has; canceled that it was made to, so that its outcome says nothing.
	ended, canceled bool
	err             error
	report          report
}

// change is what is to be done about a Feature.
type change struct {
	// status is what it shall be.
	status v1alpha1.FeatureStatus
	// cancel the running attempt, and do nothing else before it has ended.
	cancel bool
	// took tells that the outcome of the attempt is part of status, and retryAt when it may be tried again if it was none.
	took    bool
	retryAt time.Time
	// start the first task; claim tells that status marks it.
	start, claim bool
	// ask tells that status puts a question, which is open for at least window.
	ask    bool
	window time.Duration
	// extend tells that status gives those more time who have not answered.
	extend bool
	// recheck tells that it puts the question to a settled feature, and disagreement that some component sees another value.
	recheck, disagreement bool
	counted               bool
	// began tells that a transition begins.
	began bool
	// remove the Feature.
	remove bool
	// after is when to look again even if nothing changes; 0 for never.
	after time.Duration
}

// lookAgain notes that something is due after a while.
func (c *change) lookAgain(after time.Duration) {
	after = max(after, time.Millisecond)
	if c.after == 0 || after < c.after {
		c.after = after
	}
}

// decision is one run of next.
type decision struct {
	view
	change
	feature *v1alpha1.Feature
	wish    wish
}

// next decides what is to be done about a Feature by the replica that leads it.
func next(feature *v1alpha1.Feature, v view) change {
	d := &decision{view: v, feature: feature}
	d.status = *feature.Status.DeepCopy()
	know, lack := announcers(v.replicas, feature.Name)
	if feature.Status.Source == v1alpha1.SourceObserved || feature.Status.State == "" && len(know) == 0 || v.local == nil && len(know) > 0 {
		return d.change // No server has announced it, or not this one.
	}
	d.status.ObservedGeneration = feature.Generation
	if len(know) == 0 {
		d.orphan()
		return d.change
	}
	best := highest(know)
	d.status.Stability, d.status.Locked, d.status.Default, d.status.Version = best.Stability, best.Locked, best.Default, best.Version
	d.status.Dynamic = isDynamic(know)
	d.wish = wishOf(feature.Spec.Desired, know, lack)

	d.follow()
	if d.takeAttempt(); d.cancel {
		return change{cancel: true}
	}
	d.work()
	d.conclude(know)
	return d.change
}

// valueOf is the value that a state is, or is on its way to; empty if there is none.
func valueOf(state v1alpha1.State) v1alpha1.Value {
	switch state {
	case v1alpha1.StateOn, v1alpha1.StateTurningOn:
		return v1alpha1.ValueEnabled
	case v1alpha1.StateOff, v1alpha1.StateTurningOff:
		return v1alpha1.ValueDisabled
	}
	return ""
}

func (d *decision) inTransition() bool {
	return d.status.State == v1alpha1.StateTurningOn || d.status.State == v1alpha1.StateTurningOff
}

// follow begins a transition, or turns one round, if that is wished.
func (d *decision) follow() {
	if d.inTransition() && !d.planned() {
		// Another version of the server began it. All tasks are idempotent, so it can be begun again.
		d.begin(valueOf(d.status.State), slices.ContainsFunc(d.status.Tasks, awaits))
	}
	if !d.wish.agreed() {
		return
	}
	first := d.status.State == ""
	if valueOf(d.status.State) != d.wish.value {
		if !first && !d.warm {
			d.lookAgain(d.timings.RenewInterval)
			return
		}
		byDefault := !first && d.status.Source == v1alpha1.SourceDefault && d.wish.source == v1alpha1.SourceDefault
		d.begin(d.wish.value, byDefault)
	}
	d.status.Configured, d.status.Source = d.wish.value, d.wish.source
	if d.wish.source == v1alpha1.SourceDefault {
		return
	}
	for i := range d.status.Tasks {
		if task := &d.status.Tasks[i]; awaits(*task) {
			task.State, task.Message = v1alpha1.TaskPending, ""
		}
	}
}

func awaits(task v1alpha1.Task) bool { return task.State == v1alpha1.TaskAwaitingConfirmation }

// planned tells whether this replica knows all tasks that are left.
func (d *decision) planned() bool {
	return !slices.ContainsFunc(d.status.Tasks, func(task v1alpha1.Task) bool {
		_, ok := d.task(task.Name)
		return !ok && task.Name != Canary
	})
}

func (d *decision) task(name string) (Task, bool) {
	plan := d.local.plan(valueOf(d.status.State))
	i := slices.IndexFunc(plan, func(t Task) bool { return t.Name == name })
	if i < 0 {
		return Task{}, false
	}
	return plan[i], true
}

func (d *decision) begin(value v1alpha1.Value, byDefault bool) {
	d.status.State = v1alpha1.StateTurningOff
	if value == v1alpha1.ValueEnabled {
		d.status.State = v1alpha1.StateTurningOn
	}
	d.status.Tasks, d.status.UseEvaluationTime = nil, nil
	d.began, d.view.counted, d.question = true, false, nil
	if value == v1alpha1.ValueEnabled && d.canary() {
		d.status.Tasks = []v1alpha1.Task{{Name: Canary, State: v1alpha1.TaskRunning}}
	}
	for _, task := range d.local.plan(value) {
		out := v1alpha1.Task{Name: task.Name, State: v1alpha1.TaskPending}
		if task.DataChanging && byDefault {
			out.State = v1alpha1.TaskAwaitingConfirmation
			out.Message = "it changes stored data, and the value has changed only because the default did; set the feature by flag or spec.desired, to this value or back"
		}
		d.status.Tasks = append(d.status.Tasks, out)
	}
}

// canary tells whether only part of the reporters shall see the feature.
func (d *decision) canary() bool {
	canary := d.feature.Spec.Canary
	return canary != nil && canary.Percent < 100 && d.wish.source == v1alpha1.SourceDynamic && d.wish.value == v1alpha1.ValueEnabled
}

// takeAttempt takes what an attempt has come to, or has it canceled if it is not what is to be done now.
func (d *decision) takeAttempt() {
	a := d.attempt
	if a == nil {
		return
	}
	wanted := !d.began && d.inTransition() && d.status.State == a.state && len(d.status.Tasks) > 0 && d.status.Tasks[0].Name == a.task &&
		d.status.Tasks[0].Attempts == a.attempts && d.status.Tasks[0].LastAttemptTime.Equal(&a.started)
	if wanted && !a.ended {
		task, _ := d.task(a.task)
		wanted = !task.DataChanging || d.wish.agreed()
	}
	switch {
	case !a.ended && !wanted:
		d.cancel = true
	case !a.ended:
		if d.progressDue {
			d.take(a.report)
		}
		d.lookAgain(d.timings.ProgressInterval)
	default:
		d.took, d.attempt = true, nil
		switch {
		case a.canceled:
			// If another replica has taken over, it may be right.
			d.retry(d.timings.RetryBase)
		case wanted:
			d.takeOutcome(a)
		}
	}
}

func (d *decision) takeOutcome(a *attemptView) {
	d.take(a.report)
	task := &d.status.Tasks[0]
	switch {
	case a.err != nil:
		task.State, task.Message = v1alpha1.TaskFailed, a.err.Error()
		d.retry(d.timings.backoff(task.Attempts))
	case a.task == WaitForUses:
		d.change.counted, d.view.counted = true, true
	default:
		d.status.Tasks = d.status.Tasks[1:]
	}
}

func (d *decision) retry(after time.Duration) {
	d.retryAt = d.now.Add(after)
	d.notBefore = d.retryAt
}

// backoff is how long to wait after so many attempts.
func (t Timings) backoff(attempts int32) time.Duration {
	d := t.RetryBase
	for ; attempts > 1 && d < t.RetryMax; attempts-- {
		d *= 2
	}
	return min(d, t.RetryMax)
}

func (d *decision) take(r report) {
	task := &d.status.Tasks[0]
	if task.Name != WaitForUses {
		task.Done, task.Total, task.Message = r.done, r.total, r.message
	}
	if r.dangling != nil {
		d.status.DanglingReferences = r.dangling
	}
}

// work goes through the tasks until there is one to wait for.
func (d *decision) work() {
	for d.inTransition() && len(d.status.Tasks) > 0 {
		if !d.workFirst() {
			return
		}
		d.status.Tasks, d.status.UseEvaluationTime = d.status.Tasks[1:], nil
	}
	if d.inTransition() {
		d.finish()
	}
	if d.status.State != "" {
		d.recheckUses()
	}
}

func (d *decision) finish() {
	d.status.Tasks, d.status.UseEvaluationTime = nil, nil
	if d.status.State == v1alpha1.StateTurningOff {
		d.status.State = v1alpha1.StateOff
		return
	}
	d.status.State, d.status.DanglingReferences = v1alpha1.StateOn, nil
}

// waitForCanary tells whether the canary has ended. While replicas disagree what is wished it has not.
func (d *decision) waitForCanary(task *v1alpha1.Task) bool {
	if !d.canary() {
		return d.wish.agreed()
	}
	percent, total := int64(d.feature.Spec.Canary.Percent), int64(100)
	task.State, task.Done, task.Total = v1alpha1.TaskRunning, percent, &total
	task.Message = fmt.Sprintf("%d%% of the reporters see it; raise spec.canary.percent, to 100 for all, or set spec.desired: Disabled to go back", percent)
	return false
}

// workFirst tells whether the first task is done.
func (d *decision) workFirst() bool {
	first := &d.status.Tasks[0]
	switch first.Name {
	case WaitForUses:
		return d.waitForUses(first)
	case Canary:
		return d.waitForCanary(first)
	}
	task, _ := d.task(first.Name)
	switch {
	case first.State == v1alpha1.TaskAwaitingConfirmation, d.attempt != nil:
	case task.DataChanging && !d.wish.agreed():
		first.State, first.Message = v1alpha1.TaskPending, fmt.Sprintf("halted, since it changes stored data while replicas disagree: %s", d.wish.dispute)
	case task.DataChanging && !d.warm:
		d.lookAgain(d.timings.RenewInterval)
	case d.now.Before(d.notBefore):
		d.lookAgain(d.notBefore.Sub(d.now))
	default:
		first.State, first.Done, first.Total, first.Message = v1alpha1.TaskRunning, 0, nil, ""
		first.Attempts++
		first.LastAttemptTime = &metav1.Time{Time: d.now.Truncate(time.Second)}
		d.start, d.claim = true, true
	}
	return false
}
