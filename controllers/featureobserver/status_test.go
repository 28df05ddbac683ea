// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

const theGate = "NodeSwap"

// sees is what an instance at an address says about the gate.
func sees(component, reporter, version string, value v1alpha1.Value, stability v1alpha1.Stability) sighting {
	p := &page{version: version, gates: map[string]gate{"Other": {"Enabled", "GA"}}}
	if value != "" {
		p.gates[theGate] = gate{value, stability}
	}
	return sighting{component: component, reporter: reporter + metricsPath, page: p}
}

// summary is the part of a status that tests look at, in one line each.
func summary(status v1alpha1.FeatureStatus) []string {
	lines := []string{fmt.Sprintf("%s %s %s %s", status.State, status.Configured, status.Stability, status.Version)}
	for _, use := range status.Uses {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s", use.Component, use.Version, use.Value, use.Reporter, use.ReportTime.UTC().Format("15:04")))
	}
	for _, condition := range []string{v1alpha1.FeatureAvailable, v1alpha1.FeatureConflict} {
		c := meta.FindStatusCondition(status.Conditions, condition)
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s=%s %s", condition, c.Status, c.Message)))
	}
	return lines
}

func TestStatusFollowsWhatIsSeen(t *testing.T) {
	t.Parallel()
	const gone = "Available=False No component that is observed has this feature gate any more."
	at := func(clock string) metav1.Time {
		parsed, err := time.Parse("15:04", clock)
		if err != nil {
			t.Fatal(err)
		}
		return metav1.NewTime(parsed)
	}
	for name, tc := range map[string]struct {
		// before and after are what is known in two rounds; none makes a round of the first alone.
		before, after view
		// report is another's entry that comes between the two.
		report *v1alpha1.Use
		want   []string
	}{
		"one component": {
			after: view{sightings: []sighting{sees("kube-apiserver", "", "v1.37.1", "Enabled", "Beta")}},
			want:  []string{"On Enabled Beta v1.37.1", "kube-apiserver v1.37.1 Enabled /metrics 12:00", "Available=True", "Conflict=False"},
		},
		"instances that agree are one entry": {
			after: view{sightings: []sighting{sees("kubelet", "b", "v1.37.1", "Disabled", "Alpha"), sees("kubelet", "a", "v1.37.1", "Disabled", "Alpha")}},
			want:  []string{"Off Disabled Alpha v1.37.1", "kubelet v1.37.1 Disabled a/metrics 12:00", "Available=True", "Conflict=False"},
		},
		"mixed values follow kube-apiserver": {
			after: view{sightings: []sighting{
				sees("a", "a", "v2.0.0", "Enabled", "GA"), sees("kube-apiserver", "", "v1.37.1", "Disabled", "Beta"), sees("kubelet", "n", "v1.36.0", "Enabled", "Alpha"),
			}},
			want: []string{
				"Off Disabled Beta v1.37.1", "kube-apiserver v1.37.1 Disabled /metrics 12:00", "a v2.0.0 Enabled a/metrics 12:00", "kubelet v1.36.0 Enabled n/metrics 12:00",
				"Available=True", "Conflict=True Enabled in a v2.0.0, kubelet v1.36.0; Disabled in kube-apiserver v1.37.1.",
			},
		},
		"without kube-apiserver the first by name": {
			after: view{sightings: []sighting{sees("kubelet", "n", "v1.37.1", "Disabled", "Alpha"), sees("kube-scheduler", "s", "v1.36.1", "Enabled", "Beta"), sees("kube-apiserver", "", "v1.37.1", "", "")}},
			want: []string{
				"On Enabled Beta v1.36.1", "kube-scheduler v1.36.1 Enabled s/metrics 12:00", "kubelet v1.37.1 Disabled n/metrics 12:00",
				"Available=True", "Conflict=True Enabled in kube-scheduler v1.36.1; Disabled in kubelet v1.37.1.",
			},
		},
		"instances that differ: the highest version": {
			after: view{sightings: []sighting{sees("kube-apiserver", "a", "v1.9.0", "Disabled", "Alpha"), sees("kube-apiserver", "b", "v1.10.0", "Enabled", "Beta")}},
			want: []string{
				"On Enabled Beta v1.10.0", "kube-apiserver v1.10.0 Enabled b/metrics 12:00", "kube-apiserver v1.9.0 Disabled a/metrics 12:00",
				"Available=True", "Conflict=True Enabled in kube-apiserver v1.10.0; Disabled in kube-apiserver v1.9.0.",
			},
		},
		"instances that begin to differ: as before": {
			before: view{sightings: []sighting{sees("kube-apiserver", "a", "v1.9.0", "Disabled", "Alpha"), sees("kube-apiserver", "b", "v1.9.0", "Disabled", "Alpha")}},
			after:  view{sightings: []sighting{sees("kube-apiserver", "a", "v1.9.0", "Disabled", "Alpha"), sees("kube-apiserver", "b", "v1.10.0", "Enabled", "Beta")}},
			want: []string{
				"Off Disabled Beta v1.10.0", "kube-apiserver v1.10.0 Enabled b/metrics 13:00", "kube-apiserver v1.9.0 Disabled a/metrics 12:00",
				"Available=True", "Conflict=True Enabled in kube-apiserver v1.10.0; Disabled in kube-apiserver v1.9.0.",
			},
		},
		"the value changes": {
			before: view{sightings: []sighting{sees("kube-apiserver", "", "v1.37.1", "Enabled", "Beta")}},
			after:  view{sightings: []sighting{sees("kube-apiserver", "", "v1.37.1", "Disabled", "Beta")}},
			want:   []string{"Off Disabled Beta v1.37.1", "kube-apiserver v1.37.1 Disabled /metrics 13:00", "Available=True", "Conflict=False"},
		},
		"the example changes when it is over": {
			before: view{sightings: []sighting{sees("kubelet", "b", "v1.37.1", "Enabled", "Beta"), sees("kubelet", "c", "v1.37.1", "Enabled", "Beta")}},
			after:  view{sightings: []sighting{sees("kubelet", "c", "v1.37.1", "Enabled", "Beta"), sees("kubelet", "d", "v1.37.1", "Enabled", "Beta")}},
			want:   []string{"On Enabled Beta v1.37.1", "kubelet v1.37.1 Enabled c/metrics 12:00", "Available=True", "Conflict=False"},
		},
		"the example stays while it is true": {
			before: view{sightings: []sighting{sees("kubelet", "b", "v1.37.1", "Enabled", "Beta")}},
			after:  view{sightings: []sighting{sees("kubelet", "a", "v1.37.1", "Enabled", "Beta"), sees("kubelet", "b", "v1.37.1", "Enabled", "Beta")}},
			want:   []string{"On Enabled Beta v1.37.1", "kubelet v1.37.1 Enabled b/metrics 12:00", "Available=True", "Conflict=False"},
		},
		"an upgrade takes the gate away": {
			before: view{sightings: []sighting{sees("kube-apiserver", "", "v1.37.1", "Enabled", "GA")}},
			after:  view{sightings: []sighting{sees("kube-apiserver", "", "v1.38.0", "", "")}},
			want:   []string{"On Enabled GA v1.37.1", gone, "Conflict=False"},
		},
		"one component of two loses the gate": {
			before: view{sightings: []sighting{sees("kube-apiserver", "", "v1.37.1", "Enabled", "GA"), sees("kubelet", "n", "v1.37.1", "Disabled", "GA")}},
			after:  view{sightings: []sighting{sees("kube-apiserver", "", "v1.38.0", "", ""), sees("kubelet", "n", "v1.37.1", "Disabled", "GA")}},
			want:   []string{"Off Disabled GA v1.37.1", "kubelet v1.37.1 Disabled n/metrics 12:00", "Available=True", "Conflict=False"},
		},
		"a new observer that cannot read a component keeps its entries": {
			before: view{sightings: []sighting{sees("kube-apiserver", "", "v1.37.1", "Enabled", "Beta"), sees("kube-scheduler", "s", "v1.37.1", "Enabled", "Beta")}},
			after:  view{unread: []unread{{component: "kube-apiserver"}}, sightings: []sighting{sees("kube-scheduler", "s", "v1.38.0", "Disabled", "GA")}},
			want: []string{
				"On Enabled Beta v1.37.1", "kube-apiserver v1.37.1 Enabled /metrics 12:00", "kube-scheduler v1.38.0 Disabled s/metrics 13:00",
				"Available=True", "Conflict=True Enabled in kube-apiserver v1.37.1; Disabled in kube-scheduler v1.38.0.",
			},
		},
		"a kubelet that cannot be read keeps entries of its version alone": {
			before: view{sightings: []sighting{sees("kubelet", "a", "v1.35.0", "Enabled", "Beta"), sees("kubelet", "b", "v1.36.0", "Enabled", "Beta")}},
			after:  view{unread: []unread{{component: "kubelet", version: "v1.36.0"}}},
			want:   []string{"On Enabled Beta v1.36.0", "kubelet v1.36.0 Enabled b/metrics 12:00", "Available=True", "Conflict=False"},
		},
		"what others report stays, and counts": {
			before: view{sightings: []sighting{sees("kube-apiserver", "", "v1.37.1", "Enabled", "Beta")}},
			report: &v1alpha1.Use{Component: "my-scheduler", Version: "v1", Value: "Disabled", Reporter: "my-scheduler-0", ReportTime: new(at("12:30"))},
			after:  view{sightings: []sighting{sees("kube-apiserver", "", "v1.37.1", "Enabled", "Beta")}},
			want: []string{
				"On Enabled Beta v1.37.1", "kube-apiserver v1.37.1 Enabled /metrics 12:00", "my-scheduler v1 Disabled my-scheduler-0 12:30",
				"Available=True", "Conflict=True Enabled in kube-apiserver v1.37.1; Disabled in my-scheduler v1.",
			},
		},
		"others alone do not make a gate available": {
			before: view{sightings: []sighting{sees("kube-apiserver", "", "v1.37.1", "Enabled", "Beta")}},
			report: &v1alpha1.Use{Component: "my-scheduler", Version: "v1", Value: "Disabled", Reporter: "my-scheduler-0", ReportTime: new(at("12:30"))},
			after:  view{},
			want:   []string{"On Enabled Beta v1.37.1", "my-scheduler v1 Disabled my-scheduler-0 12:30", gone, "Conflict=False"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			feature := &v1alpha1.Feature{}
			feature.Generation = 1
			if tc.before.sightings != nil {
				feature.Status = statusOf(feature, tc.before.byGate()[theGate], tc.before, at("12:00"))
			}
			now := at("12:00")
			if tc.before.sightings != nil {
				now = at("13:00")
			}
			if tc.report != nil {
				feature.Status.Uses = append(feature.Status.Uses, *tc.report)
			}
			feature.Status = statusOf(feature, tc.after.byGate()[theGate], tc.after, now)
			if diff := cmp.Diff(tc.want, summary(feature.Status)); diff != "" {
				t.Errorf("status (-want,+got):\n%s", diff)
			}
			again := statusOf(feature, tc.after.byGate()[theGate], tc.after, at("14:00"))
			if !equality.Semantic.DeepEqual(feature.Status, again) {
				t.Errorf("the next round would write (-stored,+wanted):\n%s", cmp.Diff(feature.Status, again))
			}
		})
	}
}

func TestStatusTellsOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	now := metav1.Unix(1000, 0)
	feature := &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Status: v1alpha1.FeatureStatus{
		Default: "Enabled", Locked: true, Dynamic: true, Tasks: []v1alpha1.Task{{Name: "x", State: "Pending"}}, UseEvaluationTime: &now,
	}}
	v := view{sightings: []sighting{sees("kube-apiserver", "", "v1.37.1", "Enabled", "Beta")}}
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 3, LastTransitionTime: now}
	}
	const unknown = "Only observed: its component does not tell what stands in the way."
	want := v1alpha1.FeatureStatus{
		ObservedGeneration: 3, Stability: "Beta", Version: "v1.37.1", Configured: "Enabled", Source: "Observed", State: "On",
		Uses: []v1alpha1.Use{{Component: "kube-apiserver", Version: "v1.37.1", Value: "Enabled", Reporter: "/metrics", ReportTime: &now}},
		Conditions: []metav1.Condition{
			condition("Settled", "True", "Observed", "The components were started with this value."),
			condition("Available", "True", "Observed", ""),
			condition("Conflict", "False", "Agreement", ""),
			condition("SafeToUpgrade", "Unknown", "Observed", unknown),
			condition("SafeToDowngrade", "Unknown", "Observed", unknown),
		},
	}
	if diff := cmp.Diff(want, statusOf(feature, v.byGate()[theGate], v, now)); diff != "" {
		t.Errorf("status (-want,+got):\n%s", diff)
	}
}

// TestUsesAreBounded has more versions than a Feature can list; kube-apiserver's entry is kept, and the rest is the same each time.
func TestUsesAreBounded(t *testing.T) {
	t.Parallel()
	v := view{sightings: []sighting{sees("kube-apiserver", "", "v1.0.0", "Enabled", "Beta")}}
	for i := range 3000 {
		v.sightings = append(v.sightings, sees("a-kubelet", fmt.Sprintf("node-%04d", i), fmt.Sprintf("v1.%d.0", i%100), "Enabled", "Beta"))
	}
	feature := &v1alpha1.Feature{}
	feature.Status = statusOf(feature, v.byGate()[theGate], v, metav1.Unix(1, 0))
	if got := len(feature.Status.Uses); got != 64 || feature.Status.Uses[0].Component != "kube-apiserver" {
		t.Errorf("%d uses, the first of %s", got, feature.Status.Uses[0].Component)
	}
	again := statusOf(feature, v.byGate()[theGate], v, metav1.Unix(2, 0))
	if diff := cmp.Diff(feature.Status, again); diff != "" {
		t.Errorf("the next round would write (-stored,+wanted):\n%s", diff)
	}
}
