// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// withVersions is gate with changes at v1.4.0, with two tasks of an upgrade, v1.5.0 and v1.6.0.
func withVersions() *Feature {
	out := gate()
	task := func(names ...string) []Task {
		var tasks []Task
		for _, name := range names {
			tasks = append(tasks, Task{Name: name, DataChanging: true, Run: nothing})
		}
		return tasks
	}
	out.Versions = []VersionChange{
		{At: "v1.5.0", Upgrade: task("Up5"), Downgrade: task("Down5")},
		{At: "v1.4.0", Upgrade: task("Up4", "More4"), Downgrade: task("Down4")},
		{At: "v1.6.0", Upgrade: task("Up6"), Downgrade: task("Down6")},
	}
	return out
}

// runs is a live replica of a version with the changes up to it; older ones do not know those to come.
func runs(name, version string, value v1alpha1.Value) replica {
	return says(name, value, byFlag, func(a *announcement) {
		a.Version = version
		var known []string
		for _, at := range withVersions().changes() {
			if compareVersions(at, version) <= 0 {
				known = append(known, at)
			}
		}
		a.Changes = strings.Join(known, ",")
	})
}

func lookVersioned(replicas ...replica) input {
	v := look(replicas...)
	v.definition = withVersions()
	return v
}

// stored is a Feature whose stored data belong to a version. Tasks are as for feature, and marked as begun with "begun".
func stored(version string, state v1alpha1.State, tasks ...string) *v1alpha1.Feature {
	out := feature(state, valueOf(state), byFlag, tasks...)
	out.Status.Version = version
	for i := range out.Status.Tasks {
		if task := &out.Status.Tasks[i]; task.State == "begun" {
			task.State, task.Attempts = v1alpha1.TaskRunning, 3
		}
	}
	return out
}

func TestVersionTasks(t *testing.T) {
	t.Parallel()
	type result struct {
		Version string
		State   v1alpha1.State
		Tasks   []string
		Does    string
		Settled string
	}
	const (
		is        = " Pending"
		now       = " Running"
		wait      = "WaitForUses Pending"
		asking    = "WaitForUses Running"
		up4       = "Upgrade/v1.4.0/Up4"
		more4     = "Upgrade/v1.4.0/More4"
		up5       = "Upgrade/v1.5.0/Up5"
		up6       = "Upgrade/v1.6.0/Up6"
		down4     = "Downgrade/v1.4.0/Down4"
		down5     = "Downgrade/v1.5.0/Down5"
		down6     = "Downgrade/v1.6.0/Down6"
		moving    = "False Transition"
		several   = "False SeveralVersions"
		calm      = "True Settled"
		disagreed = "False Conflict"
	)
	for name, tc := range map[string]struct {
		feature *v1alpha1.Feature
		view    input
		want    result
	}{
		"announced first": {
			feature: stored("", ""), view: lookVersioned(runs("a", "v1.5.0", on)),
			want: result{"v1.5.0", "TurningOn", []string{"Prepare" + now, "Overwrite" + is, wait}, "start", moving},
		},
		"announced first after reports of another version": {
			feature: stored("v1.2.0", ""), view: lookVersioned(runs("a", "v1.5.0", off)),
			want: result{"v1.5.0", "TurningOff", []string{asking, "Check" + is, "Sweep" + is}, "ask", moving},
		},
		"announced first by two versions": {
			feature: stored("", ""), view: lookVersioned(runs("a", "v1.5.0", off), runs("b", "v1.3.0", off)),
			want: result{"v1.3.0", "TurningOff", []string{asking, "Check" + is, "Sweep" + is}, "ask", moving},
		},
		"no change between": {
			feature: stored("v1.5.0", "On"), view: lookVersioned(runs("a", "v1.5.7", on)),
			want: result{"v1.5.7", "On", nil, "", calm},
		},
		"no change between, down": {
			feature: stored("v1.5.7", "On"), view: lookVersioned(runs("a", "v1.5.0", on)),
			want: result{"v1.5.0", "On", nil, "", calm},
		},
		"no change between, two versions": {
			feature: stored("v1.5.0", "On"), view: lookVersioned(runs("a", "v1.5.0", on), runs("b", "v1.5.7", on)),
			want: result{"v1.5.7", "On", nil, "", calm},
		},
		"one of three is upgraded": {
			feature: stored("v1.4.0", "On"), view: lookVersioned(runs("a", "v1.4.0", on), runs("b", "v1.5.0", on), runs("c", "v1.4.0", on)),
			want: result{"v1.4.0", "On", nil, "", several},
		},
		"one of three is upgraded, and does not yet see the others": {
			feature: stored("v1.4.0", "On"), view: with(lookVersioned(runs("b", "v1.5.0", on)), func(v *input) { v.warm = false }),
			want: result{"v1.4.0", "On", nil, "", several},
		},
		"one of three is downgraded": {
			feature: stored("v1.5.0", "On"), view: lookVersioned(runs("a", "v1.5.0", on), runs("b", "v1.4.0", on), runs("c", "v1.5.0", on)),
			want: result{"v1.5.0", "On", nil, "", several},
		},
		"one of three is upgraded, and sees it otherwise": {
			feature: stored("v1.4.0", "On"), view: lookVersioned(runs("a", "v1.4.0", on), runs("b", "v1.5.0", off), runs("c", "v1.4.0", on)),
			want: result{"v1.4.0", "On", nil, "", disagreed},
		},
		"all are upgraded, On": {
			feature: stored("v1.4.0", "On"), view: lookVersioned(runs("a", "v1.5.0", on), runs("b", "v1.5.0", on)),
			want: result{"v1.4.0", "TurningOn", []string{up5 + now, wait}, "start", moving},
		},
		"all are upgraded, Off": {
			feature: stored("v1.4.0", "Off"), view: lookVersioned(runs("a", "v1.5.0", off)),
			want: result{"v1.4.0", "TurningOff", []string{asking, up5 + is}, "ask", moving},
		},
		"upgraded over two changes": {
			feature: stored("v1.3.0", "On"), view: lookVersioned(runs("a", "v1.5.2", on)),
			want: result{"v1.3.0", "TurningOn", []string{up4 + now, more4 + is, up5 + is, wait}, "start", moving},
		},
		"downgraded over two changes": {
			feature: stored("v1.5.2", "On"), view: lookVersioned(runs("a", "v1.3.0", on)),
			want: result{"v1.5.2", "TurningOn", []string{down5 + now, down4 + is, wait}, "start", moving},
		},
		"upgraded, and turned off by flag": {
			feature: stored("v1.4.0", "On"), view: lookVersioned(runs("a", "v1.5.0", off)),
			want: result{"v1.4.0", "TurningOff", []string{asking, up5 + is, "Check" + is, "Sweep" + is}, "ask", moving},
		},
		"upgraded, and turned on by flag": {
			feature: stored("v1.4.0", "Off"), view: lookVersioned(runs("a", "v1.5.0", on)),
			want: result{"v1.4.0", "TurningOn", []string{up5 + now, "Prepare" + is, "Overwrite" + is, wait}, "start", moving},
		},
		"upgraded in a transition": {
			feature: stored("v1.4.0", "TurningOff", "Sweep Running"), view: lookVersioned(runs("a", "v1.5.0", off)),
			want: result{"v1.4.0", "TurningOff", []string{asking, up5 + is, "Check" + is, "Sweep" + is}, "ask", moving},
		},
		"upgraded while a task awaits confirmation": {
			feature: byDefaultOnly(stored("v1.4.0", "TurningOff", "Sweep AwaitingConfirmation")),
			view:    lookVersioned(byDefaultAlone(runs("a", "v1.5.0", off))),
			want:    result{"v1.4.0", "TurningOff", []string{asking, up5 + is, "Check" + is, "Sweep AwaitingConfirmation"}, "ask", moving},
		},
		"upgraded further in the middle": {
			feature: stored("v1.4.0", "TurningOn", up5+" begun", wait), view: lookVersioned(runs("a", "v1.6.0", on)),
			want: result{"v1.4.0", "TurningOn", []string{up5 + now, up6 + is, wait}, "start", moving},
		},
		"taken up by another replica": {
			feature: stored("v1.3.0", "TurningOn", more4+" begun", up5+is, wait), view: lookVersioned(runs("a", "v1.5.0", on)),
			want: result{"v1.3.0", "TurningOn", []string{more4 + now, up5 + is, wait}, "start", moving},
		},
		"turned off in the middle": {
			feature: stored("v1.3.0", "TurningOn", more4+" begun", up5+is, wait), view: lookVersioned(runs("a", "v1.5.0", off)),
			want: result{"v1.3.0", "TurningOff", []string{asking, up4 + is, more4 + is, up5 + is, "Check" + is, "Sweep" + is}, "ask", moving},
		},
		"turned off and on again in the middle": {
			feature: stored("v1.4.0", "TurningOff", asking, up5+is, "Check"+is, "Sweep"+is), view: lookVersioned(runs("a", "v1.5.0", on)),
			want: result{"v1.4.0", "TurningOn", []string{up5 + now, "Prepare" + is, "Overwrite" + is, wait}, "start", moving},
		},
		"one of three is rolled back in the middle": {
			feature: stored("v1.4.0", "TurningOn", up5+" begun", wait), view: lookVersioned(runs("a", "v1.5.0", on), runs("b", "v1.4.0", on)),
			want: result{"v1.4.0", "TurningOn", []string{up5 + is, wait}, "", moving},
		},
		"one of three is rolled back in the middle, and leads": {
			feature: stored("v1.4.0", "TurningOn", up5+" begun", wait),
			view:    with(lookVersioned(runs("a", "v1.5.0", on), runs("b", "v1.4.0", on)), func(v *input) { v.definition.Versions = nil }),
			want:    result{"v1.4.0", "TurningOn", []string{up5 + is, wait}, "", moving},
		},
		"rolled back before it began": {
			feature: stored("v1.4.0", "TurningOff", asking, up5+is), view: lookVersioned(runs("a", "v1.4.0", off)),
			want: result{"v1.4.0", "TurningOff", []string{asking}, "ask", moving},
		},
		"rolled back after it began": {
			feature: stored("v1.4.0", "TurningOn", up5+" begun", wait), view: lookVersioned(runs("a", "v1.4.0", on)),
			want: result{"v1.4.0", "TurningOn", []string{down5 + now, wait}, "start", moving},
		},
		"rolled back after it began, to a version that knows nothing of it": {
			feature: stored("v1.4.0", "TurningOn", up5+" begun", wait),
			view:    with(lookVersioned(runs("a", "v1.4.0", on)), func(v *input) { v.definition.Versions = nil }),
			want:    result{"v1.4.0", "TurningOn", []string{asking}, "ask", moving},
		},
		"rolled back between two changes": {
			feature: stored("v1.4.0", "TurningOn", up5+is, wait), view: lookVersioned(runs("a", "v1.3.0", on)),
			want: result{"v1.4.0", "TurningOn", []string{down4 + now, wait}, "start", moving},
		},
		"rolled back after it began, and turned off": {
			feature: stored("v1.4.0", "TurningOn", down5+" begun", wait), view: lookVersioned(runs("a", "v1.4.0", off)),
			want: result{"v1.4.0", "TurningOff", []string{asking, down5 + is, "Check" + is, "Sweep" + is}, "ask", moving},
		},
		"upgraded again after a downgrade began": {
			feature: stored("v1.5.0", "TurningOn", down5+" begun", down4+is, wait), view: lookVersioned(runs("a", "v1.5.0", on)),
			want: result{"v1.5.0", "TurningOn", []string{up5 + now, wait}, "start", moving},
		},
		"upgraded further after a downgrade began": {
			feature: stored("v1.5.0", "TurningOn", down5+" begun", down4+is, wait), view: lookVersioned(runs("a", "v1.6.0", on)),
			want: result{"v1.5.0", "TurningOn", []string{up5 + now, up6 + is, wait}, "start", moving},
		},
		"rolled back between two tasks of a change": {
			feature: stored("v1.3.0", "TurningOn", more4+is, wait), view: lookVersioned(runs("a", "v1.3.0", on)),
			want: result{"v1.3.0", "TurningOn", []string{down4 + now, wait}, "start", moving},
		},
		"rolled back before a change of two tasks began": {
			feature: stored("v1.3.0", "TurningOff", asking, up4+is, more4+is), view: lookVersioned(runs("a", "v1.3.0", off)),
			want: result{"v1.3.0", "TurningOff", []string{asking}, "ask", moving},
		},
		"a change whose version was written otherwise": {
			feature: stored("v1.4.0", "TurningOn", "Upgrade/1.5.0/Up5"+is, wait), view: lookVersioned(runs("a", "v1.5.0", on)),
			want: result{"v1.4.0", "TurningOn", []string{up5 + now, wait}, "start", moving},
		},
		"upgraded while a question is open": {
			feature: stored("v1.4.0", "TurningOn", asking), view: lookVersioned(runs("a", "v1.5.0", on)),
			want: result{"v1.4.0", "TurningOn", []string{up5 + now, "Prepare" + is, "Overwrite" + is, wait}, "start", moving},
		},
		"upgraded further, where stored objects are counted": {
			feature: stored("v1.4.0", "TurningOff", asking, up5+is, "CountReferences"+is),
			view:    with(lookVersioned(runs("a", "v1.6.0", off)), func(v *input) { v.definition.Count = CountObjects() }),
			want:    result{"v1.4.0", "TurningOff", []string{asking, up5 + is, up6 + is, "CountReferences" + is}, "start", moving},
		},
		"upgraded with a canary": {
			feature: canary(10, wishing(on, stored("v1.4.0", "On"))), view: lookVersioned(announcing(runs("a", "v1.5.0", on), dynamicOnes)),
			want: result{"v1.4.0", "TurningOn", []string{up5 + now, wait}, "start", moving},
		},
		"a task that this version has no more": {
			feature: stored("v1.4.0", "TurningOn", "Upgrade/v1.5.0/Burn begun", wait), view: lookVersioned(runs("a", "v1.5.1", on)),
			want: result{"v1.4.0", "TurningOn", []string{up5 + now, wait}, "start", moving},
		},
		"begins when all others are seen": {
			feature: stored("v1.4.0", "On"), view: with(lookVersioned(runs("a", "v1.5.0", on)), func(v *input) { v.warm = false }),
			want: result{"v1.4.0", "On", nil, "", several},
		},
		"goes on when all others are seen": {
			feature: stored("v1.4.0", "TurningOn", up5+" begun", wait), view: with(lookVersioned(runs("a", "v1.5.0", on)), func(v *input) { v.warm = false }),
			want: result{"v1.4.0", "TurningOn", []string{up5 + now, wait}, "", moving},
		},
		"waits while replicas disagree": {
			feature: stored("v1.4.0", "TurningOn", up5+" begun", wait), view: lookVersioned(runs("a", "v1.5.0", on), runs("b", "v1.5.0", off)),
			want: result{"v1.4.0", "TurningOn", []string{up5 + is, wait}, "", "False Transition"},
		},
		"a sweep waits while versions are apart": {
			feature: stored("v1.4.0", "TurningOff", "Sweep Running"), view: lookVersioned(runs("a", "v1.5.0", off), runs("b", "v1.4.0", off)),
			want: result{"v1.4.0", "TurningOff", []string{"Sweep" + is}, "", moving},
		},
		"a sweep does not wait for versions that are not apart": {
			feature: stored("v1.5.0", "TurningOff", "Sweep Pending"), view: lookVersioned(runs("a", "v1.5.1", off), runs("b", "v1.5.0", off)),
			want: result{"v1.5.1", "TurningOff", []string{"Sweep" + now}, "start", moving},
		},
		"a replica lacks it": {
			feature: wishing(on, stored("v1.4.0", "On")), view: lookVersioned(dynamically(runs("a", "v1.5.0", on)), lacks("b", "server", "v1.3.0")),
			want: result{"v1.4.0", "On", nil, "", disagreed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := decide(tc.feature, tc.view)
			s := summarize(c)
			settled := meta.FindStatusCondition(c.status.Conditions, v1alpha1.FeatureSettled)
			got := result{c.status.Version, s.State, s.Tasks, s.Does, string(settled.Status) + " " + settled.Reason}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s\n%s", diff, settled.Message)
			}
		})
	}
}

func byDefaultOnly(f *v1alpha1.Feature) *v1alpha1.Feature {
	f.Status.Source = byDefault
	return f
}

func announcing(r replica, change func(*announcement)) replica {
	a := r.features["Foo"]
	change(&a)
	r.features = map[string]announcement{"Foo": a}
	return r
}

func byDefaultAlone(r replica) replica {
	return announcing(r, func(a *announcement) { a.Source = byDefault })
}

func dynamically(r replica) replica { return announcing(r, dynamicOnes) }

// TestVersionMovesWithTheTasks has attempts at version tasks end.
func TestVersionMovesWithTheTasks(t *testing.T) {
	t.Parallel()
	const up4, more4, up5, up6 = "Upgrade/v1.4.0/Up4", "Upgrade/v1.4.0/More4", "Upgrade/v1.5.0/Up5", "Upgrade/v1.6.0/Up6"
	const down5, down4 = "Downgrade/v1.5.0/Down5", "Downgrade/v1.4.0/Down4"
	for name, tc := range map[string]struct {
		from, target string
		tasks        string
		replicas     []replica
		want         string
		left         string
	}{
		"one of a change":       {from: "v1.3.0", target: "v1.5.0", tasks: up4 + "," + more4 + "," + up5, want: "v1.3.0", left: more4 + "," + up5},
		"all of a change":       {from: "v1.3.0", target: "v1.5.2", tasks: more4 + "," + up5, want: "v1.4.0", left: up5},
		"all":                   {from: "v1.4.0", target: "v1.5.2", tasks: up5, want: "v1.5.2"},
		"all of a change, down": {from: "v1.5.2", target: "v1.3.9", tasks: down5 + "," + down4, want: "v1.4.0", left: down4},
		"all, down":             {from: "v1.4.0", target: "v1.3.9", tasks: down4, want: "v1.3.9"},
		"back again":            {from: "v1.6.2", target: "v1.6.1", tasks: up5 + "," + up6, want: "v1.5.0", left: up6},
		"while a replica is rolled back": {
			from: "v1.4.0", tasks: up5, want: "v1.4.0", left: up5,
			replicas: []replica{runs("a", "v1.5.0", on), runs("b", "v1.4.0", on)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tasks []string
			for task := range strings.SplitSeq(tc.tasks, ",") {
				tasks = append(tasks, task+" Pending")
			}
			if tc.replicas == nil {
				tc.replicas = []replica{runs("a", tc.target, on)}
			}
			f := attempted(stored(tc.from, "TurningOn", append(tasks, "WaitForUses Pending")...))
			first, _, _ := strings.Cut(tc.tasks, ",")
			got := decide(f, with(lookVersioned(tc.replicas...), attempting(taskRunState{state: "TurningOn", task: first, ended: true})))
			var left []string
			for _, task := range got.status.Tasks {
				if isVersionTask(task) {
					left = append(left, task.Name)
				}
			}
			if got.status.Version != tc.want || strings.Join(left, ",") != tc.left {
				t.Errorf("got version %s with %v left, want %s with %s", got.status.Version, left, tc.want, tc.left)
			}
		})
	}
}

// TestTurnedRoundAgainAndAgain has an upgrade that has begun turned round by other versions before anything comes of it.
func TestTurnedRoundAgainAndAgain(t *testing.T) {
	t.Parallel()
	f := stored("v1.4.0", "TurningOn", "Upgrade/v1.5.0/Up5 begun", "WaitForUses Pending")
	for i, tc := range []struct{ version, first string }{
		{"v1.4.0", "Downgrade/v1.5.0/Down5"}, {"v1.5.0", "Upgrade/v1.5.0/Up5"}, {"v1.4.0", "Downgrade/v1.5.0/Down5"}, {"v1.6.0", "Upgrade/v1.5.0/Up5"},
		{"v1.4.0", "Downgrade/v1.5.0/Down5"},
	} {
		// The first task never begins, as the last attempt has failed just now.
		c := decide(f, with(lookVersioned(runs("a", tc.version, on)), func(v *input) { v.notBefore = v.now.Add(1) }))
		if got := c.status.Tasks[0].Name; got != tc.first || c.start {
			t.Fatalf("round %d, to %s: the first task is %s, want %s; started: %v", i, tc.version, got, tc.first, c.start)
		}
		f.Status = c.status
	}
}

func TestVersionChangesHaltAndAreNamed(t *testing.T) {
	t.Parallel()
	mixed := lookVersioned(runs("b", "v1.5.0", on), runs("a", "v1.4.0", on), runs("c", "v1.4.0", on))
	const who = "v1.4.0 (a, c), v1.5.0 (b)"
	running := attempted(stored("v1.4.0", "TurningOn", "Upgrade/v1.5.0/Up5 begun", "WaitForUses Pending"))
	if c := decide(running, with(mixed, attempting(taskRunState{state: "TurningOn", task: "Upgrade/v1.5.0/Up5"}))); !c.cancel {
		t.Error("a task that runs when a replica is rolled back goes on")
	}
	if got := decide(running, mixed).status.Tasks[0].Message; !strings.Contains(got, who) {
		t.Errorf("the task that waits says %q, want it to name %s", got, who)
	}
	conditions := decide(stored("v1.4.0", "On"), mixed).status.Conditions
	for _, kind := range []string{v1alpha1.FeatureSettled, v1alpha1.FeatureSafeToUpgrade, v1alpha1.FeatureSafeToDowngrade} {
		c := meta.FindStatusCondition(conditions, kind)
		if c.Status != "False" || c.Reason != reasonVersions || !strings.Contains(c.Message, who) {
			t.Errorf("%s is %s, %s: %s; want it False and to name %s", kind, c.Status, c.Reason, c.Message, who)
		}
	}
}

func TestBadVersionChanges(t *testing.T) {
	t.Parallel()
	f := Feature{Name: "Foo", Default: off, Configured: off, On: []Task{{Name: "Upgrade/v1.5.0/Up", Run: nothing}}, Versions: []VersionChange{
		{At: "next"}, {At: "v1.5/0"}, {At: "v1.6.0", Upgrade: []Task{{Name: "A", Run: nothing}, {Name: "A", Run: nothing}}}, {At: "v1.6", Downgrade: []Task{{Name: "B"}}},
	}}
	var text []string
	for _, err := range f.validate() {
		text = append(text, err.Error())
	}
	all := strings.Join(text, "\n")
	for _, want := range []string{`"Upgrade/v1.5.0/Up"`, `"next"`, `"v1.5/0"`, `"A"`, `"B"`, "two VersionChanges are at v1.6;"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not mentioned in\n%s", want, all)
		}
	}
	if good := withVersions(); len((&Feature{Name: "Foo", Default: off, Configured: off, Versions: good.Versions}).validate()) > 0 {
		t.Errorf("what is good is refused: %v", good.validate())
	}
}

func TestVersionSteps(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"Upgrade/v1.5.0/Up5": true, "Downgrade/v1.5.0/Down5": true, "Upgrade/v1.5.0": false, "Other/v1.5.0/Up5": false, "Upgrade": false} {
		if _, ok := parseVersionStep(name); ok != want {
			t.Errorf("%s is a task of a change of version: %t, want %t", name, ok, want)
		}
	}
	for _, tc := range [][2]string{{"new", "v1.5.0"}, {"v1.5.0", "new"}, {"", "v1.5.0"}} {
		if got := versionStepsBetween(tc[0], tc[1], []string{"v1.4.0", "v1.5.0"}); len(got) > 0 {
			t.Errorf("between %q and %q lie %v", tc[0], tc[1], got)
		}
	}
	if got := withVersions().dataChangingSteps("v1.4.0", false); got != "Upgrade/v1.5.0/Up5" {
		t.Errorf("the next upgrade loses data by %q", got)
	}
}
