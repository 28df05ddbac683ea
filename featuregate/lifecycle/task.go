// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/internal/workloop"
)

// Names of the tasks that are no feature's own.
const (
	// WaitForUses waits until nobody sees the feature with the value that it is leaving.
	WaitForUses = featuregate.TaskWaitForUses
	// CountReferences counts stored objects that use the feature: when all other tasks of turning it off are done, and before all others
	// when its Feature is announced for the first time, or anew.
	CountReferences = "CountReferences"
	// Canary is the task of turning a feature on by spec.desired while spec.canary is set, when it has been prepared. The reporters
	// read spec.canary while it is the first task left.
	Canary = featuregate.TaskCanary
)

// Feature is a feature gate as one server knows it.
type Feature struct {
	// Name is the gate's name, which is that of the Feature object.
	Name string
	// Version is that of the component whose feature it is; empty means Options.Version.
	Version string
	// Default is the value when nobody sets it, and Configured the one that this process has.
	Default, Configured v1alpha1.Value
	// Source is CommandLine if somebody set the value; otherwise Default, also when empty.
	Source v1alpha1.Source
	// Stability is how mature the feature is.
	Stability v1alpha1.Stability
	// Locked features cannot be changed, and Dynamic ones follow spec.desired.
	Locked, Dynamic bool
	// On are the tasks of turning the feature on, before use is permitted.
	On []Task
	// Off are the tasks of turning it off, after nobody uses it any more.
	Off []Task
	// Versions are the versions that changed what is stored in a way that the versions before cannot read, or the other way round.
	Versions []VersionChange
	// Count counts stored objects that use the feature; nil if none can. Without it, DataChanging tasks of a Feature that is announced
	// for the first time, or anew, run only once somebody has set the feature.
	Count Count
}

// Task is one step of turning a feature on or off.
type Task struct {
	// Name is unique among the tasks of a direction.
	Name string
	// DataChanging tasks change or delete what users have stored. They run only while all replicas agree, and somebody chose the value.
	DataChanging bool
	// Run does the task and returns when it is done, or with the reason why not yet: it is then tried again, at growing intervals. It
	// may be cut off at any point, also by a crash, and begun again, on another replica too; so it is idempotent. It returns only
	// after everything it started has ended.
	Run func(ctx context.Context, progress *Progress) error
}

// Count counts the stored objects that use a feature, and names some.
type Count func(ctx context.Context) (v1alpha1.DanglingReferences, error)

// Progress is how a running task tells how far it is. It is written to the Feature at most once a second.
type Progress struct {
	clock   clock.Clock
	confirm func(ctx context.Context) error
	report  func(change func(*taskReport))
}

// report is what a task has said so far.
type taskReport struct {
	done     int64
	total    *int64
	message  string
	dangling *v1alpha1.DanglingReferences
}

// Done says how much of total is done; a negative total is not known.
func (p *Progress) Done(done, total int64) {
	p.report(func(r *taskReport) {
		r.done, r.total = max(done, 0), nil
		if total >= 0 {
			total = max(total, done)
			r.total = &total
		}
	})
}

// Say tells people what the task is doing, or what it waits for.
func (p *Progress) Say(message string) {
	p.report(func(r *taskReport) { r.message = message })
}

// Dangling records what still uses the feature.
func (p *Progress) Dangling(references v1alpha1.DanglingReferences) {
	p.report(func(r *taskReport) { r.dangling = references.DeepCopy() })
}

// Confirm asks the API whether this attempt is still the one that is wanted. A task that destroys something asks before each step
// that it cannot take back: its process may have been paused while another replica took over, and turned the feature round.
func (p *Progress) Confirm(ctx context.Context) error { return p.confirm(ctx) }

// Wait returns after a while, or with the context's error.
func (p *Progress) Wait(ctx context.Context, d time.Duration) error {
	return workloop.Pause(ctx, p.clock, d)
}

// validate returns everything that is wrong with a feature.
func (f *Feature) validate() []error {
	var errs []error
	for field, value := range map[string]v1alpha1.Value{"Default": f.Default, "Configured": f.Configured} {
		if value != v1alpha1.ValueEnabled && value != v1alpha1.ValueDisabled {
			errs = append(errs, fmt.Errorf("feature %s: %s is %q; set Enabled or Disabled", f.Name, field, value))
		}
	}
	if f.Name == "" {
		errs = append(errs, errors.New("a feature has no name; set the name of its gate"))
	}
	if f.Source != "" && f.Source != v1alpha1.SourceDefault && f.Source != v1alpha1.SourceCommandLine {
		errs = append(errs, fmt.Errorf("feature %s: Source is %q; set CommandLine or Default", f.Name, f.Source))
	}
	errs = append(errs, f.validateTasks(f.On)...)
	errs = append(errs, f.validateTasks(f.Off)...)
	return append(errs, f.validateVersions()...)
}

// task finds a task by its name in the status of a feature that has a value or is on its way to it.
func (f *Feature) task(value v1alpha1.Value, name string) (Task, bool) {
	var tasks []Task
	if c, ok := parseVersionStep(name); ok {
		tasks = f.versionStepTasks(c)
	} else {
		plan := f.plan(value)
		tasks = slices.Concat(plan.before, plan.own, plan.after, f.counting())
	}
	i := slices.IndexFunc(tasks, func(t Task) bool { return t.Name == name })
	if i < 0 {
		return Task{}, false
	}
	return tasks[i], true
}

func (f *Feature) count(ctx context.Context, progress *Progress) error {
	references, err := f.Count(ctx)
	if err != nil {
		return fmt.Errorf("count what uses the feature: %w", err)
	}
	progress.Dangling(references)
	return nil
}
