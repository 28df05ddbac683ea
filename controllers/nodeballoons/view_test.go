// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodsOf(t *testing.T) {
	t.Parallel()
	pod := func(name string, minute int, edit ...func(*corev1.Pod)) *corev1.Pod {
		p := testPod(floor(), floor(), edit...)
		p.Name, p.CreationTimestamp = name, metav1.Time{Time: start.Add(time.Duration(minute) * time.Minute)}
		return p
	}
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	for name, tc := range map[string]struct {
		pods       []*corev1.Pod
		pod, dying string
	}{
		"none":                                {},
		"one":                                 {[]*corev1.Pod{pod("a", 0)}, "a", ""},
		"one that is being deleted":           {[]*corev1.Pod{pod("a", 0, deleted)}, "", "a"},
		"the next of one being deleted":       {[]*corev1.Pod{pod("a", 0, deleted), pod("b", 1)}, "b", "a"},
		"the newest last":                     {[]*corev1.Pod{pod("a", 0), pod("b", 1)}, "b", ""},
		"the newest first":                    {[]*corev1.Pod{pod("b", 1), pod("a", 0)}, "b", ""},
		"one that failed before another":      {[]*corev1.Pod{pod("a", 0, failed), pod("b", 1)}, "b", ""},
		"one that failed after another":       {[]*corev1.Pod{pod("a", 0), pod("b", 1, failed)}, "a", ""},
		"a newer one that failed comes first": {[]*corev1.Pod{pod("b", 1, failed), pod("a", 0)}, "a", ""},
		"both have failed":                    {[]*corev1.Pod{pod("a", 0, failed), pod("b", 1, failed)}, "b", ""},
		"two that are being deleted":          {[]*corev1.Pod{pod("b", 1, deleted), pod("a", 0, deleted)}, "", "b"},
	} {
		gotPod, gotDying := podsOf(tc.pods)
		if nameOf(gotPod) != tc.pod || nameOf(gotDying) != tc.dying {
			t.Errorf("%s: pod %q and dying %q, want %q and %q", name, nameOf(gotPod), nameOf(gotDying), tc.pod, tc.dying)
		}
	}
}

func nameOf(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return pod.Name
}

func TestNodeOf(t *testing.T) {
	t.Parallel()
	field := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	meant := func(terms ...corev1.NodeSelectorTerm) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}}
	}
	bound := meant(field("metadata.name", corev1.NodeSelectorOpIn, "a"))
	bound.NodeName = "b"
	for name, tc := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"bound":                         {bound, "b"},
		"meant for a node":              {meant(field("metadata.name", corev1.NodeSelectorOpIn, "a")), "a"},
		"meant for a node, second term": {meant(field("metadata.uid", corev1.NodeSelectorOpIn, "u"), field("metadata.name", corev1.NodeSelectorOpIn, "a")), "a"},
		"kept off a node":               {meant(field("metadata.name", corev1.NodeSelectorOpNotIn, "a")), ""},
		"meant for either of two nodes": {meant(field("metadata.name", corev1.NodeSelectorOpIn, "a", "b")), ""},
		"another field":                 {meant(field("metadata.uid", corev1.NodeSelectorOpIn, "a")), ""},
		"no affinity":                   {corev1.PodSpec{}, ""},
		"no affinity to nodes":          {corev1.PodSpec{Affinity: &corev1.Affinity{}}, ""},
		"affinity that is not required": {corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}, ""},
	} {
		if got := nodeOf(&corev1.Pod{Spec: tc.spec}); got != tc.want {
			t.Errorf("%s: node %q, want %q", name, got, tc.want)
		}
	}
}

func TestHeartbeatsOfNodesDoNotMatter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(*corev1.Node)
		want bool
	}{
		"heartbeat":              {func(n *corev1.Node) { n.ResourceVersion = "2" }, true},
		"another node":           {func(n *corev1.Node) { n.UID = "node-2" }, false},
		"more memory":            {func(n *corev1.Node) { n.Status.Allocatable = size{4000, 9 * gi}.list() }, false},
		"a taint, nothing else":  {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}} }, false},
		"the same, written anew": {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{} }, true},
	} {
		if got := sameNode(testNode(), testNode(tc.edit)); got != tc.want {
			t.Errorf("%s: the same %t, want %t", name, got, tc.want)
		}
	}
}
