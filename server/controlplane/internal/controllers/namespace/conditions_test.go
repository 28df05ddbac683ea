// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func widgets() kind {
	return kind{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	configMaps := kind{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")}
	const (
		discovery  = corev1.NamespaceDeletionDiscoveryFailure
		parsing    = corev1.NamespaceDeletionGVParsingFailure
		deletion   = corev1.NamespaceDeletionContentFailure
		remaining  = corev1.NamespaceContentRemaining
		finalizers = corev1.NamespaceFinalizersRemaining
	)
	for name, tc := range map[string]struct {
		known answer
		add   func(*findings)
		want  map[corev1.NamespaceConditionType]string // what is true, and its message
	}{
		"empty": {want: map[corev1.NamespaceConditionType]string{}},
		"a server is away": {
			known: answer{failure: errors.New("no answer from a/v1")},
			want:  map[corev1.NamespaceConditionType]string{discovery: "no answer from a/v1"},
		},
		"a group-version that is none": {
			known: answer{unparsable: errors.New("unexpected a/b/c")},
			want:  map[corev1.NamespaceConditionType]string{parsing: "unexpected a/b/c"},
		},
		"kinds that fail, in any order": {
			add: func(f *findings) {
				f.add(widgets(), left{}, errors.New("list widgets.example.com: away"))
				f.add(configMaps, left{objects: 1}, errors.New("delete configmaps: away"))
			},
			want: map[corev1.NamespaceConditionType]string{
				deletion:  "delete configmaps: away; list widgets.example.com: away",
				remaining: "objects that are left: configmaps (1)",
			},
		},
		"objects that wait": {
			add: func(f *findings) {
				f.add(widgets(), left{objects: 2, finalizers: map[string]int{"example.com/b": 2, "example.com/a": 1}}, nil)
				f.add(configMaps, left{objects: 1, finalizers: map[string]int{"example.com/b": 1}}, nil)
			},
			want: map[corev1.NamespaceConditionType]string{
				remaining:  "objects that are left: configmaps (1), widgets.example.com (2)",
				finalizers: "finalizers that objects wait for: example.com/a (1), example.com/b (3)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := newFindings(tc.known)
			if tc.add != nil {
				tc.add(found)
			}
			got := map[corev1.NamespaceConditionType]string{}
			conditions := found.conditions()
			for _, condition := range conditions {
				if condition.Status == corev1.ConditionTrue {
					got[condition.Type] = condition.Message
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
			if len(conditions) != 5 {
				t.Errorf("%d conditions, want all 5", len(conditions))
			}
			if (found.err() != nil) != (len(tc.want) > 0) {
				t.Errorf("the namespace may go: %v", found.err())
			}
		})
	}
}

func TestConditionsOnlyMoveWhenSomethingDoes(t *testing.T) {
	t.Parallel()
	others := corev1.NamespaceCondition{Type: "example.com/Watched", Status: corev1.ConditionTrue}
	status := corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{others}}
	at := func(minute int) metav1.Time { return metav1.NewTime(time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC)) }
	of := func(objects int) []corev1.NamespaceCondition {
		found := newFindings(answer{})
		found.add(widgets(), left{objects: objects}, nil)
		return found.conditions()
	}
	for i, tc := range []struct {
		objects, transition int
		changed             bool
	}{
		{objects: 2, transition: 0, changed: true},
		{objects: 2, transition: 0, changed: false},
		{objects: 1, transition: 0, changed: true}, // it is as true as before
		{objects: 0, transition: 3, changed: true},
		{objects: 0, transition: 3, changed: false},
	} {
		if changed := setConditions(&status, of(tc.objects), at(i)); changed != tc.changed {
			t.Errorf("step %d changed something: %t", i, changed)
		}
		if len(status.Conditions) != 6 || status.Conditions[0] != others {
			t.Fatalf("step %d: %+v", i, status.Conditions)
		}
		if got := status.Conditions[4]; got.Type != corev1.NamespaceContentRemaining || got.LastTransitionTime != at(tc.transition) {
			t.Errorf("step %d: %+v, want the transition of step %d", i, got, tc.transition)
		}
	}
}
