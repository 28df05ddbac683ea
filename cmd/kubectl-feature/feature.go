// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/cmd/internal/terminal"
)

// barWidth is how many characters a progress bar has between its brackets.
const barWidth = 20

func isInTransition(f *v1alpha1.Feature) bool {
	return f.Status.State == v1alpha1.StateTurningOn || f.Status.State == v1alpha1.StateTurningOff
}

// isUnsettled tells that the server says so, or that something is left to be done.
func isUnsettled(f *v1alpha1.Feature) bool {
	return isInTransition(f) || meta.IsStatusConditionFalse(f.Status.Conditions, v1alpha1.FeatureSettled)
}

// isDangling tells that the server says so, or that it counted references to a feature that is not to be used.
func isDangling(f *v1alpha1.Feature) bool {
	if meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.FeatureDangling) {
		return true
	}
	off := f.Status.State == v1alpha1.StateOff || f.Status.State == v1alpha1.StateTurningOff
	return off && f.Status.DanglingReferences != nil && f.Status.DanglingReferences.Count > 0
}

func isUsedBy(f *v1alpha1.Feature, component string) bool {
	for _, use := range f.Status.Uses {
		if use.Component == component {
			return true
		}
	}
	return false
}

// conditionOf returns a condition of the feature; one that is absent is Unknown.
func conditionOf(f *v1alpha1.Feature, kind string) metav1.Condition {
	if found := meta.FindStatusCondition(f.Status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: "NotReported", Message: "the condition is not set"}
}

// usesOf counts versions of components by the value they see, as the server's table does.
func usesOf(f *v1alpha1.Feature) string {
	on, off := 0, 0
	for _, use := range f.Status.Uses {
		if use.Value == v1alpha1.ValueEnabled {
			on++
		} else {
			off++
		}
	}
	var parts []string
	if on > 0 {
		parts = append(parts, fmt.Sprintf("%d on", on))
	}
	if off > 0 {
		parts = append(parts, fmt.Sprintf("%d off", off))
	}
	return strings.Join(parts, ", ")
}

// taskOf names the task at work and how far it is, as the server's table does.
func taskOf(f *v1alpha1.Feature) string {
	if len(f.Status.Tasks) == 0 {
		return ""
	}
	first := &f.Status.Tasks[0]
	if percent, known := percentOf(first); known {
		return fmt.Sprintf("%s %d%%", first.Name, percent)
	}
	return first.Name
}

// percentOf returns how much of a task is done, if the task says how much there is.
func percentOf(task *v1alpha1.Task) (int, bool) {
	if task.Total == nil || *task.Total <= 0 {
		return 0, false
	}
	done := min(max(task.Done, 0), *task.Total)
	return int(float64(done) / float64(*task.Total) * 100), true
}

// bar draws how much of a task is done, or says how much if there is no telling of what.
func bar(task *v1alpha1.Task) string {
	percent, known := percentOf(task)
	switch {
	case known:
		full := percent * barWidth / 100
		return fmt.Sprintf("[%s%s] %d%% %d/%d", strings.Repeat("#", full), strings.Repeat("-", barWidth-full), percent, task.Done, *task.Total)
	case task.Done > 0:
		return fmt.Sprintf("%d done", task.Done)
	default:
		return ""
	}
}

// reference names a stored object as kubectl accepts it.
func reference(r v1alpha1.ObjectReference) string {
	name := r.Resource
	if r.Group != "" {
		name += "." + r.Group
	}
	name += "/" + r.Name
	if r.Namespace != "" {
		name += " -n " + r.Namespace
	}
	return name
}

func age(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// safe returns text of the cluster on one line, without what would steer a terminal.
func safe(text string) string {
	return terminal.Text(printers.EscapeTerminal(strings.Join(strings.Fields(text), " ")))
}
