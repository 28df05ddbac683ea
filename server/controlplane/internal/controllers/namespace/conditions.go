// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// findings are what an attempt at emptying a namespace came to.
type findings struct {
	answer
	// failures are of kinds whose objects could not be listed or deleted.
	failures []string
	// objects and finalizers count what is left, by kind and by finalizer.
	objects, finalizers map[string]int
}

func newFindings(known answer) *findings {
	return &findings{answer: known, objects: map[string]int{}, finalizers: map[string]int{}}
}

func (f *findings) add(k kind, rest left, err error) {
	if err != nil {
		f.failures = append(f.failures, err.Error())
	}
	if rest.objects > 0 {
		f.objects[k.name()] += rest.objects
	}
	for finalizer, count := range rest.finalizers {
		f.finalizers[finalizer] += count
	}
}

// err tells why the namespace cannot be let go, nil if it can.
func (f *findings) err() error {
	for _, condition := range f.conditions() {
		if condition.Status == corev1.ConditionTrue {
			return errors.New(condition.Message)
		}
	}
	return nil
}

// conditions are all that Kubernetes has for the deletion of a namespace, always in the same order.
func (f *findings) conditions() []corev1.NamespaceCondition {
	failed := slices.Sorted(slices.Values(f.failures))
	return []corev1.NamespaceCondition{
		condition(corev1.NamespaceDeletionDiscoveryFailure, message(f.failure), "DiscoveryFailed", "ResourcesDiscovered",
			"all kinds are known"),
		condition(corev1.NamespaceDeletionGVParsingFailure, message(f.unparsable), "GroupVersionParsingFailed", "ParsedGroupVersions",
			"all group-versions could be read"),
		condition(corev1.NamespaceDeletionContentFailure, strings.Join(failed, "; "), "ContentDeletionFailed", "ContentDeleted",
			"the deletion of everything was accepted"),
		condition(corev1.NamespaceContentRemaining, listed("objects that are left: ", f.objects), "SomeResourcesRemain", "ContentRemoved",
			"nothing is left"),
		condition(corev1.NamespaceFinalizersRemaining, listed("finalizers that objects wait for: ", f.finalizers), "SomeFinalizersRemain",
			"ContentHasNoFinalizers", "no object waits for a finalizer"),
	}
}

// condition is true where there is a problem.
func condition(kind corev1.NamespaceConditionType, problem, problemReason, reason, text string) corev1.NamespaceCondition {
	if problem != "" {
		return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionTrue, Reason: problemReason, Message: problem}
	}
	return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: text}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// listed is the same text for the same counts.
func listed(intro string, counts map[string]int) string {
	if len(counts) == 0 {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", name, counts[name]))
	}
	return intro + strings.Join(parts, ", ")
}

// setConditions brings conditions up to date and leaves those of others as they are. It returns whether anything changed.
func setConditions(status *corev1.NamespaceStatus, want []corev1.NamespaceCondition, now metav1.Time) bool {
	changed := false
	for _, next := range want {
		next.LastTransitionTime = now
		i := slices.IndexFunc(status.Conditions, func(have corev1.NamespaceCondition) bool { return have.Type == next.Type })
		if i < 0 {
			status.Conditions = append(status.Conditions, next)
			changed = true
			continue
		}
		have := status.Conditions[i]
		if have.Status == next.Status {
			next.LastTransitionTime = have.LastTransitionTime
		}
		if have.Reason != next.Reason || have.Message != next.Message || have.Status != next.Status {
			status.Conditions[i] = next
			changed = true
		}
	}
	return changed
}
