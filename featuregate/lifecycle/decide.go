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

// input is what a decision about a Feature depends on, besides the Feature.
type input struct {
	now     time.Time
	timings Timings
	// warm reports that this replica has run long enough to have observed all others.
	warm bool
	// replicas and reporters are live.
	replicas  []replica
	reporters []reporter
	// definition is the feature as this replica knows it; nil if the replica does not know the feature.
	definition *Feature
	retention  int
	// taskRun is this replica's run of a task of the feature; nil if none was started, or its outcome is in the status.
	taskRun *taskRunState
	// progressDue reports that the progress of the run may be written again.
	progressDue bool
	// notBefore is when the first task may be tried again.
	notBefore time.Time
	// counted reports that references were counted in this transition.
	counted bool
	// poll is the last poll of reporters by this replica; nil if there is none.
	poll *usePoll
	// recheckDue reports that reporters may be polled again that disagree with a settled feature.
	recheckDue bool
	// staleUses are uses without a live reporter.
	staleUses map[useKey]bool
}

// taskRunState is the state of a task run.
type taskRunState struct {
	// state is the feature's when the run started; task, attempts and started identify the run in the status.
	state    v1alpha1.State
	task     string
	attempts int32
	started  metav1.Time
	// ended reports that the function has returned; canceled that its context had ended, so that the outcome means nothing.
	ended, canceled bool
	err             error
	report          taskReport
}

// decision is what the replica does about a Feature.
type decision struct {
	// status is the new status.
	status v1alpha1.FeatureStatus
	// cancel the task run, and do nothing else before it has ended.
	cancel bool
	// outcomeTaken reports that the outcome of the task run is part of status. retryAt is when the task may be tried again.
	outcomeTaken bool
	retryAt      time.Time
	// start the first task, which is marked in status.
	start bool
	// pollOpened reports that status opens a poll of reporters, which is open for at least pollWindow.
	pollOpened bool
	pollWindow time.Duration
	// pollExtended reports that status extends the poll.
	pollExtended bool
	// rechecking reports that status opens a poll about a settled feature; disagreement that a component sees another value.
	rechecking, disagreement bool
	// counted reports that references have been counted.
	counted bool
	// transitionStarted reports that a transition starts.
	transitionStarted bool
	// remove reports that the Feature is to be deleted.
	remove bool
	// requeueAfter is when to decide again even if nothing changes; 0 for never.
	requeueAfter time.Duration
}

// requeue schedules the next decision, unless an earlier one is scheduled.
func (c *decision) requeue(after time.Duration) {
	after = max(after, time.Millisecond)
	if c.requeueAfter == 0 || after < c.requeueAfter {
		c.requeueAfter = after
	}
}

// decider computes one decision. It reads feature and in, which it never writes to, and writes to out.
type decider struct {
	feature *v1alpha1.Feature
	in      input
	out     decision
	// desired and versions are derived from the input.
	desired  desiredValue
	versions versionState
}

// taskRun returns the run of a task whose outcome is not part of the decision yet; nil if there is none.
func (d *decider) taskRun() *taskRunState {
	if d.out.outcomeTaken {
		return nil
	}
	return d.in.taskRun
}

// notBefore returns when the first task may be tried again.
func (d *decider) notBefore() time.Time {
	if d.out.outcomeTaken {
		return d.out.retryAt
	}
	return d.in.notBefore
}

// poll returns the last poll of this transition; nil if there is none.
func (d *decider) poll() *usePoll {
	if d.out.transitionStarted {
		return nil
	}
	return d.in.poll
}

// counted reports whether references were counted in this transition.
func (d *decider) counted() bool {
	return d.out.counted || d.in.counted && !d.out.transitionStarted
}

// decide returns what the replica that leads a Feature does about it. It is a pure function.
func decide(feature *v1alpha1.Feature, in input) decision {
	d := &decider{feature: feature, in: in}
	d.out.status = *feature.Status.DeepCopy()
	announcing, missing := announcements(in.replicas, feature.Name)
	if feature.Status.Source == v1alpha1.SourceObserved {
		return d.out
	}
	d.removeStaleUses()
	if feature.Status.State == "" && len(announcing) == 0 || in.definition == nil && len(announcing) > 0 {
		return d.out // No server has announced it, or not this one.
	}
	d.out.status.ObservedGeneration = feature.Generation
	if len(announcing) == 0 {
		d.markOrphaned()
		return d.out
	}
	best := highestVersion(announcing)
	d.out.status.Component = best.component
	d.out.status.Stability, d.out.status.Locked, d.out.status.Dynamic = best.Stability, best.Locked, isDynamic(announcing)
	d.desired = resolveDesired(feature.Spec.Desired, announcing, missing)
	d.resolveVersions(announcing, missing)

	d.followDesired(best.Default)
	if d.takeTaskRun(); d.out.cancel {
		return decision{cancel: true}
	}
	d.runTasks()
	d.setConditions(announcing)
	return d.out
}

// valueOf returns the value of a state, or of its transition; empty without a state.
func valueOf(state v1alpha1.State) v1alpha1.Value {
	switch state {
	case v1alpha1.StateOn, v1alpha1.StateTurningOn:
		return v1alpha1.ValueEnabled
	case v1alpha1.StateOff, v1alpha1.StateTurningOff:
		return v1alpha1.ValueDisabled
	}
	return ""
}

func (d *decider) inTransition() bool {
	return d.out.status.State == v1alpha1.StateTurningOn || d.out.status.State == v1alpha1.StateTurningOff
}

// followDesired starts a transition to the desired value, or restarts one whose tasks are those of another version.
func (d *decider) followDesired(newDefault v1alpha1.Value) {
	switch first, value := d.out.status.State == "", valueOf(d.out.status.State); {
	case d.desired.agreed() && value != d.desired.value && (first || d.in.warm):
		d.startTransition(d.desired.value, d.isByDefault(), true)
	case !first && (d.versions.outdated || d.inTransition() && !d.knowsTasks()):
		// The tasks are those of another version of the server. All are idempotent, so the transition can start over.
		d.startTransition(value, slices.ContainsFunc(d.out.status.Tasks, awaitsConfirmation), d.inTransition() && !onlyVersionTasks(d.out.status.Tasks))
	}
	following := d.desired.agreed() && valueOf(d.out.status.State) == d.desired.value
	if following || d.out.status.Default == "" {
		d.out.status.Default = newDefault
	}
	switch {
	case !d.desired.agreed():
		return
	case !following:
		d.out.requeue(d.in.timings.RenewInterval)
		return
	}
	d.out.status.Configured, d.out.status.Source = d.desired.value, d.desired.source
	if d.desired.source == v1alpha1.SourceDefault {
		return
	}
	for i := range d.out.status.Tasks {
		if task := &d.out.status.Tasks[i]; awaitsConfirmation(*task) {
			task.State, task.Message = v1alpha1.TaskPending, ""
		}
	}
}

// isByDefault reports whether the desired value is a default that nobody confirmed: the feature is not set now, and was not set before, or
// was set to the former default, or spec.desired asks for the current value and is no longer allowed. It is true of a Feature without
// a state: a former object may have been lost. Until a value is followed the status keeps the former default.
func (d *decider) isByDefault() bool {
	value := valueOf(d.out.status.State)
	return d.desired.source == v1alpha1.SourceDefault &&
		(d.out.status.Source == v1alpha1.SourceDefault || d.out.status.Default == value || d.feature.Spec.Desired == value)
}

func awaitsConfirmation(task v1alpha1.Task) bool {
	return task.State == v1alpha1.TaskAwaitingConfirmation
}

// knowsTasks reports whether this replica knows all remaining tasks. Tasks of a change of version are handled by resolveVersions.
func (d *decider) knowsTasks() bool {
	return !slices.ContainsFunc(d.out.status.Tasks, func(task v1alpha1.Task) bool {
		_, ok := d.task(task.Name)
		return !ok && task.Name != Canary && !isVersionTask(task)
	})
}

func (d *decider) task(name string) (Task, bool) {
	return d.in.definition.task(valueOf(d.out.status.State), name)
}

// startTransition starts a transition to a value: with the feature's own tasks if whole, otherwise only with tasks of a change of version.
func (d *decider) startTransition(value v1alpha1.Value, byDefault, whole bool) {
	first := d.out.status.State == "" || countsFirst(d.out.status.Tasks)
	d.out.status.State = v1alpha1.StateTurningOff
	if value == v1alpha1.ValueEnabled {
		d.out.status.State = v1alpha1.StateTurningOn
	}
	d.out.status.Tasks, d.out.status.UseEvaluationTime = nil, nil
	d.out.transitionStarted = true
	add := func(tasks []Task) {
		for _, task := range tasks {
			out := v1alpha1.Task{Name: task.Name, State: v1alpha1.TaskPending}
			if task.DataChanging && byDefault {
				out.State = v1alpha1.TaskAwaitingConfirmation
				out.Message = "it changes stored data, and nobody has chosen this value; set the feature by flag or spec.desired, to this value or back"
			}
			d.out.status.Tasks = append(d.out.status.Tasks, out)
		}
	}
	steps := d.planFor(value, first)
	add(steps.before)
	d.out.status.Tasks = append(d.out.status.Tasks, d.versions.tasks...)
	switch {
	case whole && value == v1alpha1.ValueEnabled && d.hasCanary():
		// The canary needs the preparation, but must not change data, since it can be taken back.
		changes := func(t Task) bool { return t.DataChanging }
		add(slices.DeleteFunc(slices.Clone(steps.own), changes))
		d.out.status.Tasks = append(d.out.status.Tasks, v1alpha1.Task{Name: Canary, State: v1alpha1.TaskPending})
		add(slices.DeleteFunc(slices.Clone(steps.own), func(t Task) bool { return !changes(t) }))
	case whole:
		add(steps.own)
	}
	add(steps.after)
}

// plan has the tasks of one direction: the feature's own, and those before and after them and the tasks of a change of version.
type plan struct {
	before, own, after []Task
}

// plan returns the tasks of turning the feature on or off.
func (f *Feature) plan(value v1alpha1.Value) plan {
	wait := []Task{{Name: WaitForUses}}
	if value == v1alpha1.ValueEnabled {
		return plan{own: f.On, after: wait}
	}
	return plan{before: wait, own: f.Off, after: f.counting()}
}

// counting returns the task that counts references, if objects can use the feature.
func (f *Feature) counting() []Task {
	if f.Count == nil {
		return nil
	}
	return []Task{{Name: CountReferences, Run: f.count}}
}

// planFor returns the plan of a transition. The object of a new Feature says nothing about what is stored: a former one may have been lost.
// So a new Feature counts first; if nothing stored uses the feature, no task needs a confirmation. Servers that do not compare the state in
// the storage transaction may write during the count, so they count after WaitForUses.
func (d *decider) planFor(value v1alpha1.Value, first bool) plan {
	p := d.in.definition.plan(value)
	if !first {
		return p
	}
	off, guarded := d.out.status.State == v1alpha1.StateTurningOff, d.in.timings.WriteGrace < 0
	changesData := slices.ContainsFunc(p.own, func(t Task) bool { return t.DataChanging })
	switch {
	case off && d.in.definition.Count == nil && len(p.own) == 0 && len(d.disagreeing()) == 0:
		return plan{} // There is nothing to count or to clean up.
	case guarded && (off || changesData):
		p.before = slices.Concat(d.in.definition.counting(), p.before)
	case off:
		p.before = slices.Concat(p.before, d.in.definition.counting())
	}
	return p
}

// countsFirst reports whether the count of a new Feature is among the remaining tasks: any CountReferences but the last task.
func countsFirst(tasks []v1alpha1.Task) bool {
	i := slices.IndexFunc(tasks, func(task v1alpha1.Task) bool { return task.Name == CountReferences })
	return i >= 0 && i < len(tasks)-1
}

// hasCanary reports whether only part of the reporters are to see the feature.
func (d *decider) hasCanary() bool {
	canary := d.feature.Spec.Canary
	return canary != nil && canary.Percent < 100 && d.desired.source == v1alpha1.SourceDynamic && d.desired.value == v1alpha1.ValueEnabled
}

// takeTaskRun takes the progress or the outcome of the task run, and cancels a run that the status no longer asks for.
func (d *decider) takeTaskRun() {
	a := d.taskRun()
	if a == nil {
		return
	}
	wanted := !d.out.transitionStarted && d.inTransition() && d.out.status.State == a.state && len(d.out.status.Tasks) > 0 && d.out.status.Tasks[0].Name == a.task &&
		d.out.status.Tasks[0].Attempts == a.attempts && d.out.status.Tasks[0].LastAttemptTime.Equal(&a.started)
	if _, ofVersion := parseVersionStep(a.task); wanted && (!a.ended || ofVersion) {
		wanted = d.haltReason(a.task) == ""
	}
	switch {
	case !a.ended && !wanted:
		d.out.cancel = true
	case !a.ended:
		if d.in.progressDue {
			d.recordProgress(a.report)
		}
		d.out.requeue(d.in.timings.ProgressInterval)
	default:
		d.out.outcomeTaken = true
		switch {
		case a.canceled:
			// Another replica may have taken over.
			d.retry(d.in.timings.RetryBase)
		case wanted:
			d.takeOutcome(a)
		}
	}
}

func (d *decider) takeOutcome(a *taskRunState) {
	d.recordProgress(a.report)
	task := &d.out.status.Tasks[0]
	switch {
	case a.err != nil:
		task.State, task.Message = v1alpha1.TaskFailed, a.err.Error()
		d.retry(d.in.timings.backoff(task.Attempts))
	case a.task == WaitForUses:
		d.out.counted = true
	case a.task == CountReferences && countsFirst(d.out.status.Tasks):
		d.takeFirstCount()
	default:
		d.out.status.Tasks = d.out.status.Tasks[1:]
		d.completeVersionTask(a.task)
	}
}

// takeFirstCount takes the count of a new Feature: if nothing stored uses it, no task awaits confirmation, and tasks that only clean up
// are skipped.
func (d *decider) takeFirstCount() {
	d.out.status.Tasks = slices.Clone(d.out.status.Tasks[1:])
	d.out.counted = true
	if left := d.out.status.DanglingReferences; left == nil || left.Count > 0 {
		return
	}
	cleansUp := func(t Task) bool { return t.DataChanging || t.Name == waitForRemoval }
	own := slices.ContainsFunc(d.in.definition.Off, func(t Task) bool { return !cleansUp(t) })
	if d.out.status.State == v1alpha1.StateTurningOff && !own && len(d.disagreeing()) == 0 {
		d.out.status.Tasks = nil
		return
	}
	for i := range d.out.status.Tasks {
		if task := &d.out.status.Tasks[i]; awaitsConfirmation(*task) {
			task.State, task.Message = v1alpha1.TaskPending, ""
		}
	}
}

func (d *decider) retry(after time.Duration) {
	d.out.retryAt = d.in.now.Add(after)
}

// backoff returns the delay after a number of attempts.
func (t Timings) backoff(attempts int32) time.Duration {
	d := t.RetryBase
	for ; attempts > 1 && d < t.RetryMax; attempts-- {
		d *= 2
	}
	return min(d, t.RetryMax)
}

func (d *decider) recordProgress(r taskReport) {
	task := &d.out.status.Tasks[0]
	if task.Name != WaitForUses {
		task.Done, task.Total, task.Message = r.done, r.total, r.message
	}
	if r.dangling != nil {
		d.out.status.DanglingReferences = r.dangling
	}
}

// runTasks removes finished tasks from the status, up to the first one that has to run or to wait.
func (d *decider) runTasks() {
	for d.inTransition() && len(d.out.status.Tasks) > 0 {
		if !d.runFirstTask() {
			return
		}
		d.out.status.Tasks, d.out.status.UseEvaluationTime = d.out.status.Tasks[1:], nil
	}
	if d.inTransition() {
		d.finish()
	}
	if d.out.status.State != "" {
		d.recheckUses()
	}
}

// runFirstTask starts or awaits the first task, and reports whether it is done.
func (d *decider) runFirstTask() bool {
	first := &d.out.status.Tasks[0]
	switch first.Name {
	case WaitForUses:
		return d.waitForUses(first)
	case Canary:
		return d.waitForCanary(first)
	}
	task, _ := d.task(first.Name)
	halted := d.haltReason(first.Name)
	switch {
	case first.State == v1alpha1.TaskAwaitingConfirmation, d.taskRun() != nil:
	case halted != "":
		first.State, first.Message = v1alpha1.TaskPending, halted
	case (task.DataChanging || isVersionTask(*first)) && !d.in.warm:
		d.out.requeue(d.in.timings.RenewInterval)
	case d.in.now.Before(d.notBefore()):
		d.out.requeue(d.notBefore().Sub(d.in.now))
	default:
		first.State, first.Done, first.Total, first.Message = v1alpha1.TaskRunning, 0, nil, ""
		first.Attempts++
		first.LastAttemptTime = &metav1.Time{Time: d.in.now.Truncate(time.Second)}
		d.out.start = true
	}
	return false
}

// haltReason returns why a task must not run now; empty if it may run.
func (d *decider) haltReason(name string) string {
	task, _ := d.task(name)
	_, ofVersion := parseVersionStep(name)
	switch {
	case task.DataChanging && !d.desired.agreed():
		return "halted, since it changes stored data while replicas disagree: " + d.desired.dispute
	case ofVersion && d.versions.target == "", task.DataChanging && d.versions.haveStepBetween:
		return "halted, while replicas of several versions are live: " + d.versions.description
	}
	return ""
}

// waitForCanary reports whether the canary has ended. It has not while replicas disagree.
func (d *decider) waitForCanary(task *v1alpha1.Task) bool {
	if !d.hasCanary() {
		return d.desired.agreed()
	}
	percent, total := int64(d.feature.Spec.Canary.Percent), int64(100)
	task.State, task.Done, task.Total = v1alpha1.TaskRunning, percent, &total
	task.Message = fmt.Sprintf("%d%% of the reporters see it; raise spec.canary.percent, to 100 for all, or set spec.desired: Disabled to go back", percent)
	return false
}

func (d *decider) finish() {
	d.out.status.Tasks, d.out.status.UseEvaluationTime = nil, nil
	if d.out.status.State == v1alpha1.StateTurningOff {
		d.out.status.State = v1alpha1.StateOff
		return
	}
	d.out.status.State, d.out.status.DanglingReferences = v1alpha1.StateOn, nil
}
