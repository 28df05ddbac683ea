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
	// stale are the uses that nobody stands for any more.
	stale map[useKey]bool
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
	feature  *v1alpha1.Feature
	wish     wish
	versions versions
}

// next decides what is to be done about a Feature by the replica that leads it.
func next(feature *v1alpha1.Feature, v view) change {
	d := &decision{view: v, feature: feature}
	d.status = *feature.Status.DeepCopy()
	know, lack := announcers(v.replicas, feature.Name)
	if feature.Status.Source == v1alpha1.SourceObserved {
		return d.change
	}
	d.forgetStale()
	if feature.Status.State == "" && len(know) == 0 || v.local == nil && len(know) > 0 {
		return d.change // No server has announced it, or not this one.
	}
	d.status.ObservedGeneration = feature.Generation
	if len(know) == 0 {
		d.orphan()
		return d.change
	}
	best := highest(know)
	d.status.Stability, d.status.Locked, d.status.Dynamic = best.Stability, best.Locked, isDynamic(know)
	d.wish = wishOf(feature.Spec.Desired, know, lack)
	d.compareReplicas(know, lack)

	d.follow(best.Default)
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
func (d *decision) follow(newDefault v1alpha1.Value) {
	switch first, value := d.status.State == "", valueOf(d.status.State); {
	case d.wish.agreed() && value != d.wish.value && (first || d.warm):
		d.begin(d.wish.value, !first && d.defaulted(), true)
	case !first && (d.versions.outdated || d.inTransition() && !d.planned()):
		// Its tasks are those of another version of the server. All are idempotent, so it can be begun again.
		d.begin(value, slices.ContainsFunc(d.status.Tasks, awaits), d.inTransition() && !onlyVersions(d.status.Tasks))
	}
	following := d.wish.agreed() && valueOf(d.status.State) == d.wish.value
	if following || d.status.Default == "" {
		d.status.Default = newDefault
	}
	switch {
	case !d.wish.agreed():
		return
	case !following:
		d.lookAgain(d.timings.RenewInterval)
		return
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

// defaulted tells whether the wish is another value only because the default is: nobody sets the feature now, and nobody did, or to
// what was the default. Until the wish is followed the status keeps the default that it was On or Off by.
func (d *decision) defaulted() bool {
	return d.wish.source == v1alpha1.SourceDefault && (d.status.Source == v1alpha1.SourceDefault || d.status.Default == valueOf(d.status.State))
}

func awaits(task v1alpha1.Task) bool { return task.State == v1alpha1.TaskAwaitingConfirmation }

// planned tells whether this replica knows all tasks that are left. Those of a change of version are looked at elsewhere.
func (d *decision) planned() bool {
	return !slices.ContainsFunc(d.status.Tasks, func(task v1alpha1.Task) bool {
		_, ok := d.task(task.Name)
		return !ok && task.Name != Canary && !isVersionTask(task)
	})
}

func (d *decision) task(name string) (Task, bool) {
	return d.local.task(valueOf(d.status.State), name)
}

// begin begins a transition to a value: with all that it takes, or only what a change of version does.
func (d *decision) begin(value v1alpha1.Value, byDefault, whole bool) {
	d.status.State = v1alpha1.StateTurningOff
	if value == v1alpha1.ValueEnabled {
		d.status.State = v1alpha1.StateTurningOn
	}
	d.status.Tasks, d.status.UseEvaluationTime = nil, nil
	d.began, d.view.counted, d.question = true, false, nil
	add := func(tasks []Task) {
		for _, task := range tasks {
			out := v1alpha1.Task{Name: task.Name, State: v1alpha1.TaskPending}
			if task.DataChanging && byDefault {
				out.State = v1alpha1.TaskAwaitingConfirmation
				out.Message = "it changes stored data, and the value has changed only because the default did; set the feature by flag or spec.desired, to this value or back"
			}
			d.status.Tasks = append(d.status.Tasks, out)
		}
	}
	plan := d.local.plan(value)
	add(plan.before)
	d.status.Tasks = append(d.status.Tasks, d.versions.tasks...)
	switch {
	case whole && value == v1alpha1.ValueEnabled && d.canary():
		// Who is in the canary uses the feature, which must have been prepared; but it can be taken back, which changed data cannot.
		changes := func(t Task) bool { return t.DataChanging }
		add(slices.DeleteFunc(slices.Clone(plan.own), changes))
		d.status.Tasks = append(d.status.Tasks, v1alpha1.Task{Name: Canary, State: v1alpha1.TaskPending})
		add(slices.DeleteFunc(slices.Clone(plan.own), func(t Task) bool { return !changes(t) }))
	case whole:
		add(plan.own)
	}
	add(plan.after)
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
	if _, ofVersion := crossingOf(a.task); wanted && (!a.ended || ofVersion) {
		wanted = d.halted(a.task) == ""
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
		d.passed(a.task)
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
	halted := d.halted(first.Name)
	switch {
	case first.State == v1alpha1.TaskAwaitingConfirmation, d.attempt != nil:
	case halted != "":
		first.State, first.Message = v1alpha1.TaskPending, halted
	case (task.DataChanging || isVersionTask(*first)) && !d.warm:
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

// halted tells why a task must not run now; empty if it may.
func (d *decision) halted(name string) string {
	task, _ := d.task(name)
	_, ofVersion := crossingOf(name)
	switch {
	case task.DataChanging && !d.wish.agreed():
		return "halted, since it changes stored data while replicas disagree: " + d.wish.dispute
	case ofVersion && d.versions.target == "", task.DataChanging && d.versions.apart:
		return "halted, while replicas of several versions are live: " + d.versions.who
	}
	return ""
}
