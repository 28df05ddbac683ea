// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

const (
	on  = v1alpha1.ValueEnabled
	off = v1alpha1.ValueDisabled

	byFlag    = v1alpha1.SourceCommandLine
	byDefault = v1alpha1.SourceDefault
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func nothing(context.Context, *Progress) error { return nil }

// gate has a preparation and a sweep, and nothing that counts.
func gate() *Feature {
	return &Feature{
		Name: "Foo",
		On:   []Task{{Name: "Prepare", Run: nothing}, {Name: "Overwrite", DataChanging: true, Run: nothing}},
		Off:  []Task{{Name: "Check", Run: nothing}, {Name: "Sweep", DataChanging: true, Run: nothing}},
	}
}

// says is a live replica that announces Foo.
func says(name string, value v1alpha1.Value, source v1alpha1.Source, change ...func(*announcement)) replica {
	a := announcement{Value: value, Source: source, Default: off, Stability: v1alpha1.StabilityBeta, Version: "v1.5.0"}
	for _, c := range change {
		c(&a)
	}
	return replica{name: name + leaseSuffix, holder: name, component: "server", version: a.Version, features: map[string]announcement{"Foo": a}}
}

func lacks(name, component, version string) replica {
	return replica{name: name + leaseSuffix, holder: name, component: component, version: version, features: map[string]announcement{"Other": {}}}
}

func dynamicOnes(a *announcement) { a.Dynamic = true }

// feature is a Feature in a state, with tasks as "name state".
func feature(state v1alpha1.State, configured v1alpha1.Value, source v1alpha1.Source, tasks ...string) *v1alpha1.Feature {
	out := &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "Foo", Namespace: "ns", Generation: 1}}
	out.Status = v1alpha1.FeatureStatus{State: state, Configured: configured, Source: source, Version: "v1.5.0", Component: "server"}
	for _, task := range tasks {
		name, taskState, _ := strings.Cut(task, " ")
		out.Status.Tasks = append(out.Status.Tasks, v1alpha1.Task{Name: name, State: v1alpha1.TaskState(taskState)})
	}
	return out
}

func look(replicas ...replica) input {
	return input{now: now, timings: Timings{WriteGrace: -1}.withDefaults(), warm: true, replicas: replicas, definition: gate(), retention: 3}
}

// summary is what of a change the tables compare.
type summary struct {
	State      v1alpha1.State
	Configured v1alpha1.Value
	Source     v1alpha1.Source
	Tasks      []string
	// Does is what the engine is to do beside writing.
	Does string
	// True and False are conditions, without those of safety.
	True, False string
}

func summarize(c decision) summary {
	out := summary{State: c.status.State, Configured: c.status.Configured, Source: c.status.Source}
	for _, task := range c.status.Tasks {
		out.Tasks = append(out.Tasks, task.Name+" "+string(task.State))
	}
	for name, does := range map[string]bool{"cancel": c.cancel, "start": c.start, "ask": c.pollOpened, "extend": c.pollExtended, "remove": c.remove, "recheck": c.rechecking} {
		if does {
			out.Does += name
		}
	}
	var isTrue, isFalse []string
	for _, kind := range []string{"Settled", "Conflict", "Available", "Dangling"} {
		switch condition := meta.FindStatusCondition(c.status.Conditions, kind); {
		case condition == nil:
		case condition.Status == metav1.ConditionTrue:
			isTrue = append(isTrue, kind)
		case condition.Status == metav1.ConditionFalse:
			isFalse = append(isFalse, kind)
		}
	}
	out.True, out.False = strings.Join(isTrue, " "), strings.Join(isFalse, " ")
	return out
}

func TestNext(t *testing.T) {
	t.Parallel()
	const (
		moving = "Settled Conflict Dangling"
		calm   = "Conflict Dangling"
	)
	for name, tc := range map[string]struct {
		feature *v1alpha1.Feature
		view    input
		want    summary
	}{
		"announced off": {
			feature: feature("", "", ""), view: look(says("a", off, byDefault)),
			want: summary{"TurningOff", off, byDefault, []string{"WaitForUses Running", "Check Pending", "Sweep AwaitingConfirmation"}, "ask", "Available", moving},
		},
		"announced on": {
			feature: feature("", "", ""), view: look(says("a", on, byFlag)),
			want: summary{"TurningOn", on, byFlag, []string{"Prepare Running", "Overwrite Pending", "WaitForUses Pending"}, "start", "Available", moving},
		},
		"announced before this replica has seen all others": {
			feature: feature("", "", ""), view: with(look(says("a", off, byDefault)), func(v *input) { v.warm = false }),
			want: summary{"TurningOff", off, byDefault, []string{"WaitForUses Running", "Check Pending", "Sweep AwaitingConfirmation"}, "ask", "Available", moving},
		},
		"announced by replicas that disagree": {
			feature: feature("", "", ""), view: look(says("a", off, byDefault), says("b", on, byFlag)),
			want: summary{"", "", "", nil, "", "Conflict Available", "Settled Dangling"},
		},
		"settled": {
			feature: feature("On", on, byFlag), view: look(says("a", on, byFlag), says("b", on, byFlag)),
			want: summary{"On", on, byFlag, nil, "", "Settled Available", calm},
		},
		"another flag on all replicas": {
			feature: feature("On", on, byFlag), view: look(says("a", off, byFlag), says("b", off, byFlag)),
			want: summary{"TurningOff", off, byFlag, []string{"WaitForUses Running", "Check Pending", "Sweep Pending"}, "ask", "Available", moving},
		},
		"another flag, but not all others seen": {
			feature: feature("On", on, byFlag), view: with(look(says("a", off, byFlag)), func(v *input) { v.warm = false }),
			want: summary{"On", on, byFlag, nil, "", "Available", moving},
		},
		"another flag on one replica": {
			feature: feature("On", on, byFlag), view: look(says("a", off, byFlag), says("b", on, byFlag), says("c", on, byFlag)),
			want: summary{"On", on, byFlag, nil, "", "Conflict Available", "Settled Dangling"},
		},
		"a replica of another version lacks it": {
			feature: feature("Off", off, byFlag), view: look(says("a", on, byFlag), lacks("b", "server", "v1.4.0")),
			want: summary{"Off", off, byFlag, nil, "", "Conflict Available", "Settled Dangling"},
		},
		"another component lacks it": {
			feature: feature("Off", off, byFlag), view: look(says("a", on, byFlag), lacks("b", "another", "v7")),
			want: summary{"TurningOn", on, byFlag, []string{"Prepare Running", "Overwrite Pending", "WaitForUses Pending"}, "start", "Available", moving},
		},
		"the default changed": {
			feature: feature("On", on, byDefault), view: look(says("a", off, byDefault)),
			want: summary{"TurningOff", off, byDefault, []string{"WaitForUses Running", "Check Pending", "Sweep AwaitingConfirmation"}, "ask", "Available", moving},
		},
		"the flag was taken away": {
			feature: feature("On", on, byFlag), view: look(says("a", off, byDefault)),
			want: summary{"TurningOff", off, byDefault, []string{"WaitForUses Running", "Check Pending", "Sweep Pending"}, "ask", "Available", moving},
		},
		"awaiting confirmation": {
			feature: feature("TurningOff", off, byDefault, "Sweep AwaitingConfirmation"), view: look(says("a", off, byDefault)),
			want: summary{"TurningOff", off, byDefault, []string{"Sweep AwaitingConfirmation"}, "", "Available", moving},
		},
		"confirmed by flag on one of two": {
			feature: feature("TurningOff", off, byDefault, "Sweep AwaitingConfirmation"), view: look(says("a", off, byDefault), says("b", off, byFlag)),
			want: summary{"TurningOff", off, byDefault, []string{"Sweep AwaitingConfirmation"}, "", "Available", moving},
		},
		"confirmed by flag": {
			feature: feature("TurningOff", off, byDefault, "Sweep AwaitingConfirmation"), view: look(says("a", off, byFlag), says("b", off, byFlag)),
			want: summary{"TurningOff", off, byFlag, []string{"Sweep Running"}, "start", "Available", moving},
		},
		"confirmed by desired": {
			feature: wishing(off, feature("TurningOff", off, byDefault, "Sweep AwaitingConfirmation")), view: look(says("a", off, byDefault, dynamicOnes)),
			want: summary{"TurningOff", off, "Dynamic", []string{"Sweep Running"}, "start", "Available", moving},
		},
		"not confirmed, but set back": {
			feature: feature("TurningOff", off, byDefault, "Sweep AwaitingConfirmation"), view: look(says("a", on, byFlag)),
			want: summary{"TurningOn", on, byFlag, []string{"Prepare Running", "Overwrite Pending", "WaitForUses Pending"}, "start", "Available", moving},
		},
		"desired": {
			feature: wishing(on, feature("Off", off, byDefault)), view: look(says("a", off, byDefault, dynamicOnes), says("b", off, byFlag, dynamicOnes)),
			want: summary{"TurningOn", on, "Dynamic", []string{"Prepare Running", "Overwrite Pending", "WaitForUses Pending"}, "start", "Available", moving},
		},
		"desired while flags differ": {
			feature: wishing(on, feature("Off", off, byDefault)), view: look(says("a", off, byDefault, dynamicOnes), says("b", on, byFlag, dynamicOnes)),
			want: summary{"TurningOn", on, "Dynamic", []string{"Prepare Running", "Overwrite Pending", "WaitForUses Pending"}, "start", "Available", moving},
		},
		"desired of one that is not dynamic": {
			feature: wishing(on, feature("Off", off, byDefault)), view: look(says("a", off, byDefault), says("b", off, byDefault)),
			want: summary{"Off", off, byDefault, nil, "", "Settled Available", calm},
		},
		"desired of one that is not dynamic on one replica": {
			feature: wishing(on, feature("Off", off, byDefault)), view: look(says("a", off, byDefault, dynamicOnes), says("b", off, byDefault)),
			want: summary{"Off", off, byDefault, nil, "", "Conflict Available", "Settled Dangling"},
		},
		"desired of one that a replica lacks": {
			feature: wishing(on, feature("Off", off, byDefault)), view: look(says("a", off, byDefault, dynamicOnes), lacks("b", "server", "v1.4.0")),
			want: summary{"Off", off, byDefault, nil, "", "Conflict Available", "Settled Dangling"},
		},
		"desired of one that is locked": {
			feature: wishing(on, feature("Off", off, byDefault)),
			view:    look(says("a", off, byDefault, dynamicOnes, func(a *announcement) { a.Locked = true })),
			want:    summary{"Off", off, byDefault, nil, "", "Settled Available", calm},
		},
		"a sweep waits while replicas disagree": {
			feature: feature("TurningOff", off, byFlag, "Sweep Pending"), view: look(says("a", off, byFlag), says("b", on, byFlag)),
			want: summary{"TurningOff", off, byFlag, []string{"Sweep Pending"}, "", "Conflict Available", "Settled Dangling"},
		},
		"a sweep that was cut off waits, too": {
			feature: feature("TurningOff", off, byFlag, "Sweep Running"), view: look(says("a", off, byFlag), says("b", on, byFlag)),
			want: summary{"TurningOff", off, byFlag, []string{"Sweep Pending"}, "", "Conflict Available", "Settled Dangling"},
		},
		"a sweep waits until all others are seen": {
			feature: feature("TurningOff", off, byFlag, "Sweep Running"), view: with(look(says("a", off, byFlag)), func(v *input) { v.warm = false }),
			want: summary{"TurningOff", off, byFlag, []string{"Sweep Running"}, "", "Available", moving},
		},
		"other tasks go on while replicas disagree": {
			feature: feature("TurningOff", off, byFlag, "Check Pending", "Sweep Pending"), view: look(says("a", off, byFlag), says("b", on, byFlag)),
			want: summary{"TurningOff", off, byFlag, []string{"Check Running", "Sweep Pending"}, "start", "Conflict Available", "Settled Dangling"},
		},
		"turned round": {
			feature: feature("TurningOff", off, byFlag, "Check Running", "Sweep Pending"), view: look(says("a", on, byFlag)),
			want: summary{"TurningOn", on, byFlag, []string{"Prepare Running", "Overwrite Pending", "WaitForUses Pending"}, "start", "Available", moving},
		},
		"turned round while an attempt runs": {
			feature: attempted(feature("TurningOff", off, byFlag, "Check Running", "Sweep Pending")),
			view:    with(look(says("a", on, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Check"})),
			want:    summary{Does: "cancel"},
		},
		"a sweep that runs when replicas disagree": {
			feature: attempted(feature("TurningOff", off, byFlag, "Sweep Running")),
			view:    with(look(says("a", off, byFlag), says("b", on, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Sweep"})),
			want:    summary{Does: "cancel"},
		},
		"another replica has taken over": {
			feature: feature("TurningOff", off, byFlag, "Sweep Running"),
			view:    with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Sweep"})),
			want:    summary{Does: "cancel"},
		},
		"another attempt at the same time": {
			feature: with(attempted(feature("TurningOff", off, byFlag, "Sweep Running")), func(f **v1alpha1.Feature) { (*f).Status.Tasks[0].Attempts = 3 }),
			view:    with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Sweep"})),
			want:    summary{Does: "cancel"},
		},
		"the same attempt at another time": {
			feature: with(attempted(feature("TurningOff", off, byFlag, "Sweep Running")), func(f **v1alpha1.Feature) {
				(*f).Status.Tasks[0].LastAttemptTime = &metav1.Time{Time: now.Add(time.Second)}
			}),
			view: with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Sweep"})),
			want: summary{Does: "cancel"},
		},
		"an attempt at another task": {
			feature: attempted(feature("TurningOff", off, byFlag, "Sweep Running")),
			view:    with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Check"})),
			want:    summary{Does: "cancel"},
		},
		"an attempt in another state": {
			feature: attempted(feature("TurningOff", off, byFlag, "Sweep Running")),
			view:    with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOn", task: "Sweep"})),
			want:    summary{Does: "cancel"},
		},
		"the tasks disappeared while an attempt runs": {
			feature: feature("TurningOff", off, byFlag),
			view:    with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Sweep"})),
			want:    summary{Does: "cancel"},
		},
		"an attempt runs": {
			feature: attempted(feature("TurningOff", off, byFlag, "Sweep Running")),
			view:    with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Sweep"})),
			want:    summary{"TurningOff", off, byFlag, []string{"Sweep Running"}, "", "Available", moving},
		},
		"a task is done": {
			feature: attempted(feature("TurningOff", off, byFlag, "Check Running", "Sweep Pending")),
			view:    with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Check", ended: true})),
			want:    summary{"TurningOff", off, byFlag, []string{"Sweep Running"}, "start", "Available", moving},
		},
		"the last task is done": {
			feature: attempted(feature("TurningOff", off, byFlag, "Sweep Running")),
			view:    with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Sweep", ended: true})),
			want:    summary{"Off", off, byFlag, nil, "", "Settled Available", calm},
		},
		"a task of a former attempt is done": {
			feature: feature("TurningOff", off, byFlag, "Sweep Running"),
			view:    with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Sweep", ended: true})),
			want:    summary{"TurningOff", off, byFlag, []string{"Sweep Running"}, "start", "Available", moving},
		},
		"a task was cut off": {
			feature: attempted(feature("TurningOff", off, byFlag, "Sweep Running")),
			view:    with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Sweep", ended: true, canceled: true})),
			want:    summary{"TurningOff", off, byFlag, []string{"Sweep Running"}, "", "Available", moving},
		},
		"a task failed": {
			feature: attempted(feature("TurningOff", off, byFlag, "Sweep Running")),
			view:    with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Sweep", ended: true, err: errors.New("no")})),
			want:    summary{"TurningOff", off, byFlag, []string{"Sweep Failed"}, "", "Available", moving},
		},
		"a failed task is due": {
			feature: feature("TurningOff", off, byFlag, "Sweep Failed"), view: look(says("a", off, byFlag)),
			want: summary{"TurningOff", off, byFlag, []string{"Sweep Running"}, "start", "Available", moving},
		},
		"tasks of another version": {
			feature: feature("TurningOff", off, byFlag, "Burn Running"), view: look(says("a", off, byFlag)),
			want: summary{"TurningOff", off, byFlag, []string{"WaitForUses Running", "Check Pending", "Sweep Pending"}, "ask", "Available", moving},
		},
		"a canary begins": {
			feature: canary(10, wishing(on, feature("Off", off, byDefault))), view: look(says("a", off, byDefault, dynamicOnes)),
			want: summary{"TurningOn", on, "Dynamic", []string{"Prepare Running", "Canary Pending", "Overwrite Pending", "WaitForUses Pending"}, "start", "Available", moving},
		},
		"a canary goes on": {
			feature: canary(0, wishing(on, feature("TurningOn", on, "Dynamic", "Canary Running", "WaitForUses Pending"))), view: look(says("a", off, byDefault, dynamicOnes)),
			want: summary{"TurningOn", on, "Dynamic", []string{"Canary Running", "WaitForUses Pending"}, "", "Available", moving},
		},
		"a canary reaches all": {
			feature: canary(100, wishing(on, feature("TurningOn", on, "Dynamic", "Canary Running", "WaitForUses Pending"))), view: look(says("a", off, byDefault, dynamicOnes)),
			want: summary{"TurningOn", on, "Dynamic", []string{"WaitForUses Running"}, "ask", "Available", moving},
		},
		"a canary is removed": {
			feature: wishing(on, feature("TurningOn", on, "Dynamic", "Canary Running", "WaitForUses Pending")), view: look(says("a", off, byDefault, dynamicOnes)),
			want: summary{"TurningOn", on, "Dynamic", []string{"WaitForUses Running"}, "ask", "Available", moving},
		},
		"a canary is taken back": {
			feature: canary(10, wishing(off, feature("TurningOn", on, "Dynamic", "Canary Running", "WaitForUses Pending"))), view: look(says("a", off, byDefault, dynamicOnes)),
			want: summary{"TurningOff", off, "Dynamic", []string{"WaitForUses Running", "Check Pending", "Sweep Pending"}, "ask", "Available", moving},
		},
		"a canary without a wish": {
			feature: canary(10, feature("Off", off, byDefault)), view: look(says("a", off, byDefault, dynamicOnes)),
			want: summary{"Off", off, byDefault, nil, "", "Settled Available", calm},
		},
		"a canary without an agreement on the feature being dynamic": {
			feature: canary(10, wishing(on, feature("TurningOn", on, "Dynamic", "Canary Running", "WaitForUses Pending"))),
			view:    look(says("a", off, byDefault), says("b", on, byFlag, dynamicOnes)),
			want:    summary{"TurningOn", on, "Dynamic", []string{"Canary Running", "WaitForUses Pending"}, "", "Conflict Available", "Settled Dangling"},
		},
		"nobody announces it": {
			feature: feature("Off", off, byFlag), view: look(lacks("a", "server", "v1.7.9")),
			want: summary{"Off", off, byFlag, nil, "", "", "Conflict Available Dangling"},
		},
		"nobody has announced it for long": {
			feature: feature("Off", off, byFlag), view: look(lacks("a", "server", "v1.8.0")),
			want: summary{"Off", off, byFlag, nil, "remove", "", ""},
		},
		"nobody has announced it for long, but not all know that": {
			feature: feature("Off", off, byFlag), view: look(lacks("a", "server", "v1.8.0"), lacks("b", "server", "v1.7.0")),
			want: summary{"Off", off, byFlag, nil, "", "", "Conflict Available Dangling"},
		},
		"nobody has announced it for long, but it dangles": {
			feature: dangling(2, feature("Off", off, byFlag)), view: look(lacks("a", "server", "v1.8.0")),
			want: summary{"Off", off, byFlag, nil, "", "Dangling", "Conflict Available"},
		},
		"nobody has announced it for long, but tasks are left": {
			feature: feature("TurningOff", off, byFlag, "Sweep Pending"), view: look(lacks("a", "server", "v1.8.0")),
			want: summary{"TurningOff", off, byFlag, []string{"Sweep Pending"}, "", "", "Conflict Available Dangling"},
		},
		"kept for ever": {
			feature: feature("Off", off, byFlag), view: with(look(lacks("a", "server", "v1.99.0")), func(v *input) { v.retention = -1 }),
			want: summary{"Off", off, byFlag, nil, "", "", "Conflict Available Dangling"},
		},
		"known from reports alone": {
			feature: feature("", "", ""), view: look(lacks("a", "server", "v9")),
			want: summary{},
		},
		"observed": {
			feature: feature("On", on, "Observed"), view: look(says("a", off, byFlag)),
			want: summary{"On", on, "Observed", nil, "", "", ""},
		},
		"off, and dangling": {
			feature: dangling(3, feature("Off", off, byFlag)), view: look(says("a", off, byFlag)),
			want: summary{"Off", off, byFlag, nil, "", "Settled Available Dangling", "Conflict"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.feature.DeepCopy()
			if diff := cmp.Diff(tc.want, summarize(decide(tc.feature, tc.view))); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.feature); diff != "" {
				t.Errorf("the Feature itself was changed:\n%s", diff)
			}
		})
	}
}

func with[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

func TestProgressOfAnAttempt(t *testing.T) {
	t.Parallel()
	total := int64(10)
	running := taskRunState{state: "TurningOff", task: "Sweep", report: taskReport{done: 3, total: &total, message: "sweeps"}}
	f := attempted(feature("TurningOff", off, byFlag, "Sweep Running"))
	v := with(look(says("a", off, byFlag)), attempting(running))
	if task := decide(f, v).status.Tasks[0]; task.Done != 0 || task.Total != nil || task.Message != "" {
		t.Errorf("progress that is not due is written: %+v", task)
	}
	v.progressDue = true
	if task := decide(f, v).status.Tasks[0]; task.Done != 3 || task.Total == nil || *task.Total != 10 || task.Message != "sweeps" {
		t.Errorf("progress that is due is not written: %+v", task)
	}
	f = attempted(feature("TurningOff", off, byFlag, "WaitForUses Running", "Sweep Pending"))
	f.Status.Tasks[0].Message = "asked"
	v = with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: WaitForUses, report: running.report}))
	v.definition.Count, v.progressDue = CountObjects(), true
	if task := decide(f, v).status.Tasks[0]; task.Done != 0 || task.Message != "asked" {
		t.Errorf("the count before the question is progress of the question: %+v", task)
	}
}

func TestAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	f := attempted(feature("TurningOff", off, byFlag, "Sweep Failed"))
	if task := decide(f, look(says("a", off, byFlag))).status.Tasks[0]; task.Attempts != 3 {
		t.Errorf("after 2 attempts the next one is number %d", task.Attempts)
	}
}

func wishing(desired v1alpha1.Value, f *v1alpha1.Feature) *v1alpha1.Feature {
	f.Spec.Desired = desired
	return f
}

func canary(percent int32, f *v1alpha1.Feature) *v1alpha1.Feature {
	f.Spec.Canary = &v1alpha1.Canary{Percent: percent}
	return f
}

func dangling(count int64, f *v1alpha1.Feature) *v1alpha1.Feature {
	f.Status.DanglingReferences = &v1alpha1.DanglingReferences{Count: count}
	return f
}

// attempted marks the first task as the attempt of attempting does.
func attempted(f *v1alpha1.Feature) *v1alpha1.Feature {
	f.Status.Tasks[0].Attempts, f.Status.Tasks[0].LastAttemptTime = 2, &metav1.Time{Time: now}
	return f
}

func attempting(a taskRunState) func(*input) {
	a.attempts, a.started = 2, metav1.Time{Time: now}
	return func(v *input) { v.taskRun = &a }
}

// TestDecideWritesToNoInput compares the arguments of decide before and after a decision that takes an outcome and starts a poll.
func TestDecideWritesToNoInput(t *testing.T) {
	t.Parallel()
	total := int64(3)
	run := taskRunState{state: "TurningOff", task: "Sweep", ended: true, report: taskReport{done: 3, total: &total, dangling: &v1alpha1.DanglingReferences{Count: 1}}}
	poll := usePoll{resourceVersion: "5", window: time.Minute}
	f := feature("TurningOff", off, byFlag, "Sweep Running")
	f.Status.Uses = []v1alpha1.Use{{Component: "c", Version: "v1", Value: on}, {Component: "d", Version: "v1", Value: on}}
	in := with(look(says("a", off, byFlag)), attempting(run))
	in.poll, in.staleUses = &poll, map[useKey]bool{{component: "c", version: "v1", value: on}: true}
	before, replicas, runBefore, pollBefore := f.DeepCopy(), slices.Clone(in.replicas), *in.taskRun, *in.poll
	if out := decide(f, in); !out.outcomeTaken || len(out.status.Uses) != 1 {
		t.Fatalf("the decision is %+v; want one that takes the outcome and removes a use", out)
	}
	if diff := cmp.Diff(before, f); diff != "" {
		t.Errorf("the Feature has changed (-want,+got):\n%s", diff)
	}
	if !slices.EqualFunc(replicas, in.replicas, replica.equal) || !reflect.DeepEqual(runBefore, *in.taskRun) || pollBefore != *in.poll || len(in.staleUses) != 1 {
		t.Errorf("the input has changed: %+v", in)
	}
}
