// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// VersionChange is a version of the feature's component whose stored data the versions below cannot read, or the other way round.
type VersionChange struct {
	// At is the first version that has the change, such as v1.5.0. Only the numbers count: v1.5.0-rc.1 has it as well.
	At string
	// Upgrade are the tasks of coming from below At to it, or past it, and Downgrade those of the way back. They run in the version that
	// one comes to, when no replica of another is left, while use of the feature is not permitted; so those of a downgrade are for
	// the older version to know, which may have learned of the change in a patch release. They run for whatever value the feature has,
	// and only for a feature that some version had announced before.
	Upgrade, Downgrade []Task
}

// versionStep is a VersionChange that lies between two versions, with the direction.
type versionStep struct {
	at   string
	down bool
}

const upgrade, downgrade = "Upgrade", "Downgrade"

// task returns the name of a task of the step in the status. By it another replica can resume the step.
func (c versionStep) task(name string) string {
	direction := upgrade
	if c.down {
		direction = downgrade
	}
	return direction + "/" + c.at + "/" + name
}

// parseVersionStep returns the step of a task in the status, if the task belongs to one.
func parseVersionStep(task string) (versionStep, bool) {
	direction, rest, _ := strings.Cut(task, "/")
	at, _, ok := strings.Cut(rest, "/")
	return versionStep{at: at, down: direction == downgrade}, ok && (direction == upgrade || direction == downgrade)
}

func isVersionTask(task v1alpha1.Task) bool {
	_, ok := parseVersionStep(task.Name)
	return ok
}

// versionStepsBetween lists the changes between two versions; none if one is no version.
func versionStepsBetween(from, to string, changes []string) []versionStep {
	var out []versionStep
	if !isVersion(from) || !isVersion(to) {
		return nil
	}
	down := compareVersions(to, from) < 0
	low, high := from, to
	if down {
		low, high = to, from
	}
	for _, at := range changes {
		if compareVersions(low, at) < 0 && compareVersions(at, high) <= 0 {
			out = append(out, versionStep{at: at, down: down})
		}
	}
	return out
}

func isVersion(text string) bool {
	_, err := version.ParseGeneric(text)
	return err == nil
}

// versionStepTasks returns the tasks of a step, by their names in the status.
func (f *Feature) versionStepTasks(c versionStep) []Task {
	i := slices.IndexFunc(f.Versions, func(change VersionChange) bool { return change.At == c.at })
	if i < 0 {
		return nil
	}
	tasks := f.Versions[i].Upgrade
	if c.down {
		tasks = f.Versions[i].Downgrade
	}
	out := slices.Clone(tasks)
	for i := range out {
		out[i].Name = c.task(out[i].Name)
	}
	return out
}

func (f *Feature) changes() []string {
	out := make([]string, 0, len(f.Versions))
	for _, change := range f.Versions {
		out = append(out, change.At)
	}
	return out
}

// versionState compares the versions of the live replicas with the one in the status.
type versionState struct {
	// target is the version of all replicas; empty while they are of several.
	target string
	// haveStepBetween reports that a change lies between versions of live replicas.
	haveStepBetween bool
	// description lists the replicas by version.
	description string
	// waiting reports that a change lies between one of them and the version in the status.
	waiting bool
	// tasks are the tasks of the change of version that the status should have; outdated reports that the status has others.
	tasks    []v1alpha1.Task
	outdated bool
}

// resolveVersions compares the versions and lists the tasks of a change of version. Until these are done the version in the status is that
// of the stored data.
func (d *decider) resolveVersions(announcing []announcedBy, missing []replica) {
	low, high := lowestVersion(announcing).Version, highestVersion(announcing).Version
	var changes []string
	for _, a := range announcing {
		if a.Changes != "" {
			changes = append(changes, strings.Split(a.Changes, ",")...)
		}
	}
	d.versions = versionState{haveStepBetween: len(versionStepsBetween(low, high, changes)) > 0, description: describeVersions(announcing, missing), tasks: slices.DeleteFunc(slices.Clone(d.out.status.Tasks), func(task v1alpha1.Task) bool {
		return !isVersionTask(task)
	})}
	if compareVersions(low, high) == 0 && len(missing) == 0 {
		d.versions.target = high
	}
	switch stored := d.out.status.Version; {
	case d.out.status.State == "" && d.versions.haveStepBetween:
		d.out.status.Version = low // What the others store must not be taken for that of the highest.
	case d.out.status.State == "":
		d.out.status.Version = high
	case d.versions.target != "" && d.in.warm:
		had := d.versions.tasks
		d.versions.tasks = d.versionTasks()
		d.versions.outdated = !isRemainder(d.versions.tasks, had)
		if len(d.versions.tasks) == 0 {
			d.out.status.Version = high
		}
	default:
		d.versions.waiting = len(versionStepsBetween(stored, low, changes))+len(versionStepsBetween(stored, high, changes))+len(d.versions.tasks) > 0
		switch {
		case !d.in.warm:
			d.out.requeue(d.in.timings.RenewInterval)
		case !d.versions.waiting:
			d.out.status.Version = high
		}
	}
}

// describeVersions lists the replicas of each version, if there are several versions.
func describeVersions(announcing []announcedBy, missing []replica) string {
	of := map[string][]string{}
	for _, a := range announcing {
		of[a.announcement.Version] = append(of[a.announcement.Version], a.display())
	}
	for _, r := range missing {
		of[r.version] = append(of[r.version], r.display())
	}
	if len(of) < 2 {
		return ""
	}
	parts := make([]string, 0, len(of))
	for v, replicas := range of {
		parts = append(parts, fmt.Sprintf("%s (%s)", v, joinFew(replicas)))
	}
	slices.SortFunc(parts, cmp.Compare)
	return joinFew(parts)
}

// versionTasks lists all tasks on the way from what is stored to the version of all replicas: of the changes that lie between them, of
// those on whose way the feature is, and those of the way back over a change that has begun.
func (d *decider) versionTasks() []v1alpha1.Task {
	begun := map[string]int32{}
	ways := versionStepsBetween(d.out.status.Version, d.versions.target, d.in.definition.changes())
	for _, task := range d.out.status.Tasks {
		c, ok := parseVersionStep(task.Name)
		if !ok {
			continue
		}
		i := slices.IndexFunc(d.in.definition.Versions, func(change VersionChange) bool { return compareVersions(change.At, c.at) == 0 })
		if i < 0 {
			continue // This version does not know the change.
		}
		at := d.in.definition.Versions[i].At
		if task.Attempts > 0 || d.isPartlyDone(c, task.Name) {
			begun[at] = max(begun[at], task.Attempts, 1)
		}
		down := compareVersions(d.versions.target, at) < 0
		if c.down == down || begun[at] > 0 {
			ways = append(ways, versionStep{at: at, down: down})
		}
	}
	slices.SortFunc(ways, func(a, b versionStep) int {
		if a.down != b.down {
			return -compareBool(a.down, b.down)
		}
		if a.down {
			return compareVersions(b.at, a.at)
		}
		return compareVersions(a.at, b.at)
	})
	var out []v1alpha1.Task
	for _, c := range slices.CompactFunc(ways, func(a, b versionStep) bool { return compareVersions(a.at, b.at) == 0 }) {
		for i, task := range d.in.definition.versionStepTasks(c) {
			next := v1alpha1.Task{Name: task.Name, State: v1alpha1.TaskPending}
			if i == 0 {
				next.Attempts = begun[c.at] // If it is turned round again, that it has begun must not be forgotten.
			}
			out = append(out, next)
		}
	}
	return out
}

// isPartlyDone reports whether a task is the first remaining one of a step, but not the step's first.
func (d *decider) isPartlyDone(c versionStep, name string) bool {
	left := slices.IndexFunc(d.out.status.Tasks, func(task v1alpha1.Task) bool {
		of, ok := parseVersionStep(task.Name)
		return ok && of == c
	})
	all := d.in.definition.versionStepTasks(c)
	return d.out.status.Tasks[left].Name == name && len(all) > 0 && all[0].Name != name
}

// isRemainder reports whether tasks are what remains of all when some of the first step are done.
func isRemainder(all, tasks []v1alpha1.Task) bool {
	done := len(all) - len(tasks)
	if done < 0 || len(tasks) == 0 {
		return done == 0
	}
	first, _ := parseVersionStep(all[0].Name)
	now, _ := parseVersionStep(tasks[0].Name)
	return first == now && slices.EqualFunc(all[done:], tasks, func(a, b v1alpha1.Task) bool { return a.Name == b.Name })
}

// onlyVersionTasks reports whether the transition is only a change of version.
func onlyVersionTasks(tasks []v1alpha1.Task) bool {
	return slices.ContainsFunc(tasks, isVersionTask) && !slices.ContainsFunc(tasks, func(task v1alpha1.Task) bool {
		return !isVersionTask(task) && task.Name != WaitForUses && task.Name != CountReferences
	})
}

// completeVersionTask moves the version in the status on if the finished task was the last of a step.
func (d *decider) completeVersionTask(task string) {
	c, ok := parseVersionStep(task)
	if !ok {
		return
	}
	i := slices.IndexFunc(d.out.status.Tasks, isVersionTask)
	if i < 0 {
		d.out.status.Version, d.versions.tasks = d.versions.target, nil
		return
	}
	next, _ := parseVersionStep(d.out.status.Tasks[i].Name)
	switch {
	case next == c:
	case c.down:
		d.out.status.Version = next.at
	default:
		d.out.status.Version = c.at
	}
}

// dataChangingSteps lists the data-changing tasks of the next minor version up or down.
func (f *Feature) dataChangingSteps(from string, down bool) string {
	now, err := version.ParseGeneric(from)
	if f == nil || err != nil {
		return ""
	}
	var out []string
	for _, change := range f.Versions {
		at, err := version.ParseGeneric(change.At)
		if err != nil || at.Major() != now.Major() || now.LessThan(at) == down {
			continue
		}
		near := at.Minor() == now.Minor() || !down && at.Minor() == now.Minor()+1
		c := versionStep{at: change.At, down: down}
		for _, task := range f.versionStepTasks(c) {
			if near && task.DataChanging {
				out = append(out, task.Name)
			}
		}
	}
	return joinFew(out)
}

// validateVersions returns the errors of the VersionChanges.
func (f *Feature) validateVersions() []error {
	var errs []error
	for i, change := range f.Versions {
		if !isVersion(change.At) || strings.ContainsAny(change.At, "/,") {
			errs = append(errs, fmt.Errorf("feature %s: At of a VersionChange is %q; set a version such as v1.5.0", f.Name, change.At))
		}
		if slices.ContainsFunc(f.Versions[:i], func(other VersionChange) bool { return compareVersions(other.At, change.At) == 0 }) {
			errs = append(errs, fmt.Errorf("feature %s: two VersionChanges are at %s; make one of them", f.Name, change.At))
		}
		errs = append(errs, f.validateTasks(change.Upgrade)...)
		errs = append(errs, f.validateTasks(change.Downgrade)...)
	}
	return errs
}

// validateTasks returns the errors of a list of tasks.
func (f *Feature) validateTasks(tasks []Task) []error {
	var errs []error
	seen := map[string]bool{WaitForUses: true, CountReferences: true, Canary: true}
	for _, task := range tasks {
		if task.Name == "" || seen[task.Name] || task.Run == nil || isVersionTask(v1alpha1.Task{Name: task.Name}) {
			errs = append(errs, fmt.Errorf("feature %s: task %q lacks a function, or a name that no other task of that direction has", f.Name, task.Name))
		}
		seen[task.Name] = true
	}
	return errs
}
