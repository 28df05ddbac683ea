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

// crossing is one change of version on the way to another version.
type crossing struct {
	at   string
	down bool
}

const upgrade, downgrade = "Upgrade", "Downgrade"

// task is the name that a task of the crossing has in the status. It tells what is to be gone on with, whoever does that.
func (c crossing) task(name string) string {
	direction := upgrade
	if c.down {
		direction = downgrade
	}
	return direction + "/" + c.at + "/" + name
}

// crossingOf tells of what crossing a task in the status is, if it is of any.
func crossingOf(task string) (crossing, bool) {
	direction, rest, _ := strings.Cut(task, "/")
	at, _, ok := strings.Cut(rest, "/")
	return crossing{at: at, down: direction == downgrade}, ok && (direction == upgrade || direction == downgrade)
}

func isVersionTask(task v1alpha1.Task) bool {
	_, ok := crossingOf(task.Name)
	return ok
}

// crossed lists the changes that lie between two versions. Of what is no version nothing is known.
func crossed(from, to string, changes []string) []crossing {
	var out []crossing
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
			out = append(out, crossing{at: at, down: down})
		}
	}
	return out
}

func isVersion(text string) bool {
	_, err := version.ParseGeneric(text)
	return err == nil
}

// tasksOf returns the tasks of a crossing as they are named in the status.
func (f *Feature) tasksOf(c crossing) []Task {
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

// versions is how the versions of the live replicas stand to the one in the status.
type versions struct {
	// target is the version of all replicas; empty while they are of several.
	target string
	// apart tells that a change lies between them.
	apart bool
	// who names them by their versions.
	who string
	// waiting tells that a change lies between one of them and the version in the status.
	waiting bool
	// tasks are those of the change of version as they should be in the status, and outdated tells that the status has others.
	tasks    []v1alpha1.Task
	outdated bool
}

// compareReplicas finds out whether the component has changed its version, and with what tasks. As long as these are not done the
// version in the status is the one that what is stored belongs to.
func (d *decision) compareReplicas(know []said, lack []replica) {
	low, high := lowest(know).Version, highest(know).Version
	var changes []string
	for _, a := range know {
		if a.Changes != "" {
			changes = append(changes, strings.Split(a.Changes, ",")...)
		}
	}
	d.versions = versions{apart: len(crossed(low, high, changes)) > 0, who: whoRuns(know, lack), tasks: slices.DeleteFunc(slices.Clone(d.status.Tasks), func(task v1alpha1.Task) bool {
		return !isVersionTask(task)
	})}
	if compareVersions(low, high) == 0 && len(lack) == 0 {
		d.versions.target = high
	}
	switch stored := d.status.Version; {
	case d.status.State == "" && d.versions.apart:
		d.status.Version = low // What the others store must not be taken for that of the highest.
	case d.status.State == "":
		d.status.Version = high
	case d.versions.target != "" && d.warm:
		had := d.versions.tasks
		d.versions.tasks = d.versionTasks()
		d.versions.outdated = !isRest(d.versions.tasks, had)
		if len(d.versions.tasks) == 0 {
			d.status.Version = high
		}
	default:
		d.versions.waiting = len(crossed(stored, low, changes))+len(crossed(stored, high, changes))+len(d.versions.tasks) > 0
		switch {
		case !d.warm:
			d.lookAgain(d.timings.RenewInterval)
		case !d.versions.waiting:
			d.status.Version = high
		}
	}
}

// whoRuns names the replicas of each version, if there are several.
func whoRuns(know []said, lack []replica) string {
	of := map[string][]string{}
	for _, a := range know {
		of[a.announcement.Version] = append(of[a.announcement.Version], a.display())
	}
	for _, r := range lack {
		of[r.version] = append(of[r.version], r.display())
	}
	if len(of) < 2 {
		return ""
	}
	parts := make([]string, 0, len(of))
	for v, replicas := range of {
		parts = append(parts, fmt.Sprintf("%s (%s)", v, few(replicas)))
	}
	slices.SortFunc(parts, cmp.Compare)
	return few(parts)
}

// versionTasks lists all tasks on the way from what is stored to the version of all replicas: of the changes that lie between them, of
// those on whose way the feature is, and those of the way back over a change that has begun.
func (d *decision) versionTasks() []v1alpha1.Task {
	begun := map[string]int32{}
	ways := crossed(d.status.Version, d.versions.target, d.local.changes())
	for _, task := range d.status.Tasks {
		c, ok := crossingOf(task.Name)
		if !ok {
			continue
		}
		i := slices.IndexFunc(d.local.Versions, func(change VersionChange) bool { return compareVersions(change.At, c.at) == 0 })
		if i < 0 {
			continue // It is past what this version knows of.
		}
		at := d.local.Versions[i].At
		if task.Attempts > 0 || d.isLater(c, task.Name) {
			begun[at] = max(begun[at], task.Attempts, 1)
		}
		down := compareVersions(d.versions.target, at) < 0
		if c.down == down || begun[at] > 0 {
			ways = append(ways, crossing{at: at, down: down})
		}
	}
	slices.SortFunc(ways, func(a, b crossing) int {
		if a.down != b.down {
			return -compareBool(a.down, b.down)
		}
		if a.down {
			return compareVersions(b.at, a.at)
		}
		return compareVersions(a.at, b.at)
	})
	var out []v1alpha1.Task
	for _, c := range slices.CompactFunc(ways, func(a, b crossing) bool { return compareVersions(a.at, b.at) == 0 }) {
		for i, task := range d.local.tasksOf(c) {
			next := v1alpha1.Task{Name: task.Name, State: v1alpha1.TaskPending}
			if i == 0 {
				next.Attempts = begun[c.at] // If it is turned round again, that it has begun must not be forgotten.
			}
			out = append(out, next)
		}
	}
	return out
}

// isLater tells whether a task is the first one left of a crossing, but not the first of it.
func (d *decision) isLater(c crossing, name string) bool {
	left := slices.IndexFunc(d.status.Tasks, func(task v1alpha1.Task) bool {
		of, ok := crossingOf(task.Name)
		return ok && of == c
	})
	all := d.local.tasksOf(c)
	return d.status.Tasks[left].Name == name && len(all) > 0 && all[0].Name != name
}

// isRest tells whether tasks are what is left of all when some of the first crossing are done.
func isRest(all, tasks []v1alpha1.Task) bool {
	done := len(all) - len(tasks)
	if done < 0 || len(tasks) == 0 {
		return done == 0
	}
	first, _ := crossingOf(all[0].Name)
	now, _ := crossingOf(tasks[0].Name)
	return first == now && slices.EqualFunc(all[done:], tasks, func(a, b v1alpha1.Task) bool { return a.Name == b.Name })
}

// onlyVersions tells whether the transition is one of the version alone.
func onlyVersions(tasks []v1alpha1.Task) bool {
	return slices.ContainsFunc(tasks, isVersionTask) && !slices.ContainsFunc(tasks, func(task v1alpha1.Task) bool {
		return !isVersionTask(task) && task.Name != WaitForUses && task.Name != CountReferences
	})
}

// passed takes it to the status that a task is done, if it is one of a change of version.
func (d *decision) passed(task string) {
	c, ok := crossingOf(task)
	if !ok {
		return
	}
	i := slices.IndexFunc(d.status.Tasks, isVersionTask)
	if i < 0 {
		d.status.Version, d.versions.tasks = d.versions.target, nil
		return
	}
	next, _ := crossingOf(d.status.Tasks[i].Name)
	switch {
	case next == c:
	case c.down:
		d.status.Version = next.at
	default:
		d.status.Version = c.at
	}
}

// losing names the changes of version that one step up or down would cross with tasks that change stored data.
func (f *Feature) losing(from string, down bool) string {
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
		c := crossing{at: change.At, down: down}
		for _, task := range f.tasksOf(c) {
			if near && task.DataChanging {
				out = append(out, task.Name)
			}
		}
	}
	return few(out)
}

// validateVersions returns everything that is wrong with the changes of version.
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

// validateTasks tells what is wrong with a list of tasks, besides what the library's own are called.
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
