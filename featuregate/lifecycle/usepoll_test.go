// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
)

// asked is a Feature on its way to Off that was asked about at the given time before now, with a minute for the answers.
func asked(ago time.Duration, uses ...v1alpha1.Use) (*v1alpha1.Feature, *usePoll) {
	f := feature("TurningOff", off, byFlag, "WaitForUses Running", "Sweep Pending")
	at := metav1.NewTime(now.Add(time.Minute - ago))
	f.Status.UseEvaluationTime, f.Status.Uses = &at, uses
	return f, &usePoll{resourceVersion: "100", openedAt: now.Add(-ago), window: time.Minute, evaluationTime: at}
}

func use(value v1alpha1.Value) v1alpha1.Use {
	return v1alpha1.Use{Component: "kubelet", Version: "v1", Value: value, Reporter: "node-1"}
}

func TestWaitForUses(t *testing.T) {
	t.Parallel()
	type result struct {
		Does string
		// First is the first task, Opens in what time answers are read.
		First string
		Opens time.Duration
		After time.Duration
		Uses  int
	}
	for name, tc := range map[string]struct {
		ago       time.Duration
		uses      []v1alpha1.Use
		reporters []reporter
		change    func(*v1alpha1.Feature, *input)
		want      result
	}{
		"window open":    {ago: 20 * time.Second, want: result{First: "WaitForUses", Opens: 40 * time.Second, After: 40 * time.Second}},
		"nobody there":   {ago: time.Minute, want: result{Does: "start", First: "Sweep"}},
		"all answered":   {ago: time.Minute, reporters: []reporter{{"a", "100"}, {"b", "1000"}}, want: result{Does: "start", First: "Sweep"}},
		"all agree":      {ago: time.Minute, uses: []v1alpha1.Use{use(off)}, want: result{Does: "start", First: "Sweep", Uses: 1}},
		"answered early": {ago: time.Second, reporters: []reporter{{"a", "100"}}, want: result{First: "WaitForUses", Opens: 59 * time.Second, After: 59 * time.Second}},
		"one silent":     {ago: time.Minute, reporters: []reporter{{"a", "99"}, {"b", "100"}}, want: result{Does: "extend", First: "WaitForUses", Opens: time.Minute, After: time.Second}},
		"one has not begun": {
			ago: time.Minute, reporters: []reporter{{"a", ""}},
			want: result{Does: "extend", First: "WaitForUses", Opens: time.Minute, After: time.Second},
		},
		"one sees the old value": {
			ago: time.Minute, uses: []v1alpha1.Use{use(on), use(off)},
			want: result{Does: "ask", First: "WaitForUses", Opens: time.Minute, After: time.Minute, Uses: 1},
		},
		"asked by another replica": {
			ago: 5 * time.Minute, change: func(_ *v1alpha1.Feature, v *input) { v.poll = nil },
			want: result{Does: "ask", First: "WaitForUses", Opens: time.Minute, After: time.Minute},
		},
		"asked anew by another replica": {
			ago: 5 * time.Minute, change: func(f *v1alpha1.Feature, _ *input) { f.Status.UseEvaluationTime = &metav1.Time{Time: now} },
			want: result{Does: "ask", First: "WaitForUses", Opens: time.Minute, After: time.Minute},
		},
		"asked anew by another replica, several times": {
			ago: 5 * time.Minute, change: func(f *v1alpha1.Feature, _ *input) {
				f.Status.UseEvaluationTime, f.Status.Tasks[0].Attempts = &metav1.Time{Time: now}, 3
			},
			want: result{Does: "ask", First: "WaitForUses", Opens: time.Minute, After: time.Minute},
		},
		"one sees the old value, several times": {
			ago: time.Minute, uses: []v1alpha1.Use{use(on)}, change: func(f *v1alpha1.Feature, _ *input) { f.Status.Tasks[0].Attempts = 3 },
			want: result{Does: "ask", First: "WaitForUses", Opens: 4 * time.Minute, After: 4 * time.Minute},
		},
		// The wall clock jumped ahead after the question.
		"window open by the monotonic clock": {
			ago: 70 * time.Second, change: func(_ *v1alpha1.Feature, v *input) {
				q := *v.poll
				q.openedAt = now.Add(-10 * time.Second)
				v.poll = &q
			},
			want: result{First: "WaitForUses", Opens: -10 * time.Second, After: 50 * time.Second},
		},
		"extended and answered": {
			ago: 10 * time.Minute, reporters: []reporter{{"a", "100"}}, change: extended(30 * time.Second),
			want: result{Does: "start", First: "Sweep"},
		},
		"extended and silent": {
			ago: 10 * time.Minute, reporters: []reporter{{"a", "99"}}, change: extended(30 * time.Second),
			want: result{First: "WaitForUses", Opens: 30 * time.Second, After: time.Second},
		},
		"extended and silent for long": {
			ago: 10 * time.Minute, reporters: []reporter{{"a", "99"}}, change: extended(0),
			want: result{Does: "extend", First: "WaitForUses", Opens: 2 * time.Minute, After: time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, q := asked(tc.ago, tc.uses...)
			v := look(says("a", off, byFlag))
			v.poll, v.reporters = q, tc.reporters
			if tc.change != nil {
				tc.change(f, &v)
			}
			c := decide(f, v)
			got := result{Does: summarize(c).Does, First: c.status.Tasks[0].Name, After: c.requeueAfter, Uses: len(c.status.Uses)}
			if c.status.UseEvaluationTime != nil {
				got.Opens = c.status.UseEvaluationTime.Sub(now)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s\nstatus: %+v", diff, c.status)
			}
		})
	}
}

// extended is a question of which the answers are read later, since somebody did not answer.
func extended(by time.Duration) func(*v1alpha1.Feature, *input) {
	return func(f *v1alpha1.Feature, v *input) {
		f.Status.UseEvaluationTime = &metav1.Time{Time: now.Add(by)}
		q := *v.poll
		q.extensions, q.evaluationTime = 1, *f.Status.UseEvaluationTime
		v.poll = &q
	}
}

func TestTheSilentAndTheDisagreeingAreNamed(t *testing.T) {
	t.Parallel()
	f, q := asked(time.Minute)
	v := look(says("a", off, byFlag))
	v.poll = q
	for _, name := range strings.Split("abcdefghijkl", "") {
		v.reporters = append(v.reporters, reporter{name: name, observed: "1"})
	}
	const silent = "waits for 12 live reporters to answer, or their Leases to expire: a, b, c, d, e, f, g, h, i, j and 2 more"
	if got := decide(f, v).status.Tasks[0].Message; got != silent {
		t.Errorf("got %q, want %q", got, silent)
	}
	f, v.poll = asked(time.Minute, use(on))
	if got := decide(f, v).status.Tasks[0].Attempts; got != 1 {
		t.Errorf("asked again, and %d questions are counted", got)
	}
	const disagree = "asked again, since 1 disagreed: kubelet v1 (such as node-1) sees it as Enabled"
	if got := decide(f, v).status.Tasks[0].Message; got != disagree {
		t.Errorf("got %q, want %q", got, disagree)
	}
}

func TestManyReportersHaveMoreTime(t *testing.T) {
	t.Parallel()
	v := look(says("a", off, byFlag))
	v.reporters = make([]reporter, 30000)
	got := decide(feature("On", on, byFlag), v)
	if want := 150 * time.Second; got.status.UseEvaluationTime.Sub(now) != want {
		t.Errorf("answers of 30000 are read after %s, want %s", got.status.UseEvaluationTime.Sub(now), want)
	}
	v.timings.WriteGrace = 10 * time.Minute
	if got := decide(feature("On", on, byFlag), v).status.UseEvaluationTime.Sub(now); got != 10*time.Minute {
		t.Errorf("with servers that may write for 10m, answers are read after %s", got)
	}
}

func TestCountedBeforeAnybodyIsAsked(t *testing.T) {
	t.Parallel()
	v := look(says("a", off, byFlag))
	v.definition.Count = CountObjects()
	f := feature("On", on, byFlag)
	c := decide(f, v)
	if !c.start || c.pollOpened || c.status.UseEvaluationTime != nil || c.status.Tasks[0].Name != WaitForUses {
		t.Fatalf("at first: %+v", summarize(c))
	}
	if last := c.status.Tasks[len(c.status.Tasks)-1].Name; last != CountReferences {
		t.Errorf("the last task is %s, want %s", last, CountReferences)
	}
	f.Status = c.status
	v.taskRun = &taskRunState{
		state: "TurningOff", task: WaitForUses, attempts: 1, started: *c.status.Tasks[0].LastAttemptTime, ended: true,
		report: taskReport{dangling: &v1alpha1.DanglingReferences{Count: 7}},
	}
	c = decide(f, v)
	if !c.pollOpened || !c.counted || c.status.DanglingReferences == nil || c.status.DanglingReferences.Count != 7 {
		t.Errorf("after the count: %+v, dangling %+v", summarize(c), c.status.DanglingReferences)
	}
	if !meta.IsStatusConditionTrue(c.status.Conditions, v1alpha1.FeatureDangling) {
		t.Error("7 objects use the feature, which is TurningOff, and Dangling is not True")
	}
}

// TestThoseWhoDisagreeAreAskedAgain follows a settled feature through a report that disagrees, a question, and no answer to it.
func TestThoseWhoDisagreeAreAskedAgain(t *testing.T) {
	t.Parallel()
	f, v := feature("On", on, byFlag), look(says("a", on, byFlag))
	f.Status.Uses = []v1alpha1.Use{use(on), use(off)}
	step := func(does string, conflict metav1.ConditionStatus, uses int, open bool) {
		t.Helper()
		c := decide(f, v)
		f.Status = c.status
		condition := meta.FindStatusCondition(c.status.Conditions, v1alpha1.FeatureConflict)
		if got := summarize(c).Does; got != does || condition.Status != conflict || len(c.status.Uses) != uses || (c.status.UseEvaluationTime != nil) != open {
			t.Fatalf("got %q, conflict %s, %d uses, question %v; want %q, %s, %d, open %v",
				got, condition.Status, len(c.status.Uses), c.status.UseEvaluationTime, does, conflict, uses, open)
		}
		if conflict == metav1.ConditionTrue && condition.Message != "kubelet v1 (such as node-1) sees it as Disabled" {
			t.Errorf("message %q", condition.Message)
		}
	}
	step("", "True", 2, false)
	v.recheckDue = true
	if after := decide(f, v).requeueAfter; after != v.timings.AnswerWindow {
		t.Errorf("asked again, it looks again in %s, want when the answers are there", after)
	}
	step("recheck", "True", 1, true)
	v.now, v.recheckDue = now.Add(30*time.Second), false
	step("", "True", 1, true)
	v.now = now.Add(time.Minute)
	step("", "False", 1, false)
}

func TestReportersAreNamed(t *testing.T) {
	t.Parallel()
	l := lease("lease-1", "node-1", now)
	l.Annotations = map[string]string{featuregate.AnnotationComponent: "kubelet", featuregate.AnnotationObserved: "17"}
	if got := reporterOf(l); got != (reporter{"kubelet/node-1", "17"}) {
		t.Errorf("the reporter is %+v", got)
	}
	l.Spec.HolderIdentity = nil
	if got := reporterOf(l); got != (reporter{"kubelet/lease-1", "17"}) {
		t.Errorf("without a holder the reporter is %+v", got)
	}
}
