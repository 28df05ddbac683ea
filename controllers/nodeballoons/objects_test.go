// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/metrics"
	"sigs.k8s.io/yaml"
)

const artifacts = "../../artifacts/"

// TestManifestsAreWhatTheControllerMakes keeps artifacts/deploy/balloons and objects.go the same.
func TestManifestsAreWhatTheControllerMakes(t *testing.T) {
	t.Parallel()
	for file, objects := range map[string]struct{ got, want any }{
		"priorityclass.yaml": {&schedulingv1.PriorityClass{}, withType(priorityClass())},
		"daemonset.yaml":     {&appsv1.DaemonSet{}, withKind(daemonSet("pause"))},
	} {
		content, err := os.ReadFile(artifacts + "deploy/balloons/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(content, objects.got); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		quantities := cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
		if diff := cmp.Diff(objects.want, objects.got, quantities); diff != "" {
			t.Errorf("%s is not what the controller makes (-want,+got):\n%s", file, diff)
		}
	}
}

func withType(class *schedulingv1.PriorityClass) *schedulingv1.PriorityClass {
	class.APIVersion, class.Kind = "scheduling.k8s.io/v1", "PriorityClass"
	return class
}

func withKind(set *appsv1.DaemonSet) *appsv1.DaemonSet {
	set.APIVersion, set.Kind = "apps/v1", "DaemonSet"
	return set
}

// TestRulesAreAboutTheMetrics reads the recording rules, whose expressions only Prometheus itself can parse.
func TestRulesAreAboutTheMetrics(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(artifacts + "monitoring/node-balloons.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Record string            `json:"record"`
				Expr   string            `json:"expr"`
				Labels map[string]string `json:"labels,omitempty"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(content, &file); err != nil {
		t.Fatal(err)
	}
	var exprs string
	for _, group := range file.Groups {
		if group.Name == "" || len(group.Rules) == 0 {
			t.Errorf("a group lacks a name or rules: %+v", group)
		}
		for _, rule := range group.Rules {
			if strings.Count(rule.Record, ":") != 2 || strings.Count(rule.Expr, "(") != strings.Count(rule.Expr, ")") {
				t.Errorf("the rule %+v is no rule", rule)
			}
			exprs += rule.Expr
		}
	}
	for _, want := range []string{
		"annex_node_balloon_effective_allocatable", "label_" + strings.NewReplacer(".", "_", "/", "_").Replace(Label) + `="true"`, corev1.ResourceCPU.String(),
	} {
		if !strings.Contains(exprs, want) {
			t.Errorf("no rule is about %s", want)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m, registry := NewMetrics(), metrics.NewKubeRegistry()
	if err := m.Register(registry.Register); err != nil {
		t.Fatal(err)
	}
	series := func() map[string]int {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		n := map[string]int{}
		for _, family := range families {
			n[family.GetName()] = len(family.GetMetric())
		}
		return n
	}
	m.set("a", size{4000, gi}, size{1000, gi})
	m.set("b", size{4000, gi}, floor())
	if diff := cmp.Diff(map[string]int{"annex_node_balloon_allocated": 4, "annex_node_balloon_effective_allocatable": 4}, series()); diff != "" {
		t.Errorf("metrics of two nodes (-want,+got):\n%s", diff)
	}
	m.forget("a")
	if n := series()["annex_node_balloon_allocated"]; n != 2 {
		t.Errorf("after a node has gone there are %d series, want 2", n)
	}
	m.reset()
	if left := series(); len(left) != 0 {
		t.Errorf("after the term there are %v", left)
	}
}
