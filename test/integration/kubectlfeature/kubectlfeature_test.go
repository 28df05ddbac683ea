// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectlfeature

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

func TestKubectlFeature(t *testing.T) {
	t.Parallel()
	p := start(t)
	for name, test := range map[string]func(*testing.T, *plugin){
		"reading":     testReading,
		"formats":     testFormats,
		"terminal":    testTerminal,
		"live":        testLive,
		"own":         testOwn,
		"upgrade":     testUpgradeCheck,
		"setting":     testSetting,
		"waiting":     testWaiting,
		"bad input":   testBadInput,
		"api missing": testAPIMissing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

func testReading(t *testing.T, p *plugin) {
	p.namespace(t, "reading", map[string]v1alpha1.FeatureStatus{
		"Alpha": {
			State: v1alpha1.StateOn, Stability: v1alpha1.StabilityAlpha, Default: v1alpha1.ValueDisabled, Configured: v1alpha1.ValueEnabled,
			Source: v1alpha1.SourceCommandLine, Version: "v1.37.1", Locked: true,
			Uses: []v1alpha1.Use{{Component: "kube-scheduler", Version: "v1.37.1", Value: v1alpha1.ValueEnabled, Reporter: "host-1"}},
		},
		"Busy": {
			State: v1alpha1.StateTurningOff, Stability: v1alpha1.StabilityBeta,
			Tasks: []v1alpha1.Task{
				{Name: "ClearField", State: v1alpha1.TaskRunning, Done: 40, Total: ptr.To[int64](100), Message: "rewriting widgets", Attempts: 1},
				{Name: "WaitForRemoval", State: v1alpha1.TaskPending},
			},
			Conditions: []metav1.Condition{condition(v1alpha1.FeatureSettled, metav1.ConditionFalse, "Transition", "2 tasks are left")},
		},
		"Left": {
			State: v1alpha1.StateOff, Stability: v1alpha1.StabilityBeta,
			DanglingReferences: &v1alpha1.DanglingReferences{Count: 12, Examples: []v1alpha1.ObjectReference{{Group: "example.com", Resource: "widgets", Namespace: "shop", Name: "one"}}},
			Conditions:         []metav1.Condition{condition(v1alpha1.FeatureDangling, metav1.ConditionTrue, "ReferencesLeft", "12 stored objects")},
		},
	})
	p.want(t, 0, `\ANAME +STATE +STABILITY +DEFAULT +SOURCE +USES +TASK +AGE\nAlpha +On +Alpha +Disabled +CommandLine +1 on +\d+s\nBusy +TurningOff +Beta +ClearField 40% +\d+s\nLeft`, "",
		"list", "-n", "reading")
	p.want(t, 0, `AGE +VERSION +SAFE-TO-UPGRADE\n.*v1\.37\.1 +Unknown`, "", "list", "-n", "reading", "-o", "wide")
	p.want(t, 0, `\ANAMESPACE +NAME.*^reading +Alpha `, "", "list", "-A", "--component", "kube-scheduler")
	for flag, want := range map[string]string{
		"--state=on": "Alpha", "--state=off,TurningOff": "Busy Left", "--component=kube-scheduler": "Alpha", "--dangling": "Left", "--unsettled": "Busy",
	} {
		var lines []string
		for name := range strings.FieldsSeq(want) {
			lines = append(lines, "feature.features.k8s.io/"+name)
		}
		p.want(t, 0, `\A`+strings.Join(lines, `\n`)+`\n\z`, "", "list", "-n", "reading", "-o", "name", flag)
	}
	p.want(t, 0, "", `None of 3 features is what is asked for in namespace reading; -A`, "list", "-n", "reading", "--component", "nobody")
	p.want(t, 0, `"kind": "FeatureList"`, "", "list", "-n", "reading", "-o", "json")
	p.want(t, 0, `\AAlpha Busy Left\z`, "", "list", "-n", "reading", "-o", "jsonpath={.items[*].metadata.name}")

	p.want(t, 0, `^Name: +Alpha\n.*^Stability: +Alpha, locked\n.*^Configured: +Enabled \(CommandLine\)\n.*^  kube-scheduler +v1\.37\.1 +Enabled +host-1`, "", "describe", "Alpha", "-n", "reading")
	p.want(t, 0, `^  ClearField +Running +\[########------------\] 40% 40/100 +1 +rewriting widgets\n  WaitForRemoval +Pending.*^  Settled +False +Transition`, "",
		"describe", "feature.features.k8s.io/Busy", "-n", "reading")
	p.want(t, 0, `^Dangling references:\n  12 stored objects use it, 1 of which are:\n    widgets\.example\.com/one -n shop`, "", "describe", "Left", "-n", "reading")
	p.want(t, 0, `^kind: Feature\n`, "", "describe", "Left", "-n", "reading", "-o", "yaml")

	p.want(t, 0, `\Areading/Left is Off\n  12 stored objects use it, 1 of which are:\n    widgets\.example\.com/one -n shop\n\z`, "", "dangling", "-n", "reading")
	p.want(t, 0, `^feature\.features\.k8s\.io/Left$`, "", "dangling", "-A", "-o", "name")
	p.want(t, 0, `\AAlpha\nBusy\nLeft\n:4`, `.`, "__complete", "-n", "reading", "describe", "")
}

func testUpgradeCheck(t *testing.T, p *plugin) {
	both := func(status metav1.ConditionStatus, reason, message string) v1alpha1.FeatureStatus {
		return v1alpha1.FeatureStatus{Conditions: []metav1.Condition{
			condition(v1alpha1.FeatureAvailable, metav1.ConditionTrue, "Announced", ""),
			condition(v1alpha1.FeatureSafeToUpgrade, status, reason, message), condition(v1alpha1.FeatureSafeToDowngrade, metav1.ConditionTrue, "Safe", ""),
		}}
	}
	observed := both(metav1.ConditionUnknown, "Observed", "only observed")
	observed.Source = v1alpha1.SourceObserved
	p.namespace(t, "upgrade", map[string]v1alpha1.FeatureStatus{
		"Blocking": both(metav1.ConditionFalse, "AlphaOn", "an alpha feature is On"),
		"Fine":     both(metav1.ConditionTrue, "Safe", ""),
		"Another":  observed,
	})
	p.want(t, 1, `\ANAMESPACE +NAME.*SAFE-TO-UPGRADE +REASON +MESSAGE\nupgrade +Blocking +False +AlphaOn +an alpha feature is On\nupgrade +Another +Unknown +Observed +only observed\n\z`,
		`\Aerror: of 3 features 1 stands in the way of an upgrade; of 1 it is unknown\n\z`, "upgrade-check", "-n", "upgrade")
	p.want(t, 0, "", `\AOf 3 features none stands in the way of a downgrade\.\n\z`, "upgrade-check", "-n", "upgrade", "--downgrade")
	p.want(t, 1, `"safe": false,.*"name": "Blocking",.*"reason": "AlphaOn"`, "error", "upgrade-check", "-n", "upgrade", "-o", "json")
	p.want(t, 0, `^check: SafeToDowngrade\n.*^safe: true`, "none stands", "upgrade-check", "-n", "upgrade", "--downgrade", "-o", "yaml")
	p.want(t, 1, `^upgrade +Blocking`, "error", "upgrade-check") // all namespaces
}

func testSetting(t *testing.T, p *plugin) {
	p.namespace(t, "setting", map[string]v1alpha1.FeatureStatus{
		"Dynamic": {State: v1alpha1.StateOff, Dynamic: true},
		"Static":  {State: v1alpha1.StateOff},
		"Locked":  {State: v1alpha1.StateOn, Locked: true, Default: v1alpha1.ValueEnabled},
	})
	p.want(t, 0, `\Afeature\.features\.k8s\.io/Dynamic is to be Enabled\n\z`, "", "enable", "Dynamic", "-n", "setting")
	feature, err := p.server.Annex.FeaturesV1alpha1().Features("setting").Get(t.Context(), "Dynamic", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner := ""
	for _, entry := range feature.ManagedFields {
		if strings.Contains(entry.FieldsV1.GetRawString(), "f:desired") {
			owner = entry.Manager
		}
	}
	if feature.Spec.Desired != v1alpha1.ValueEnabled || owner != "kubectl-feature" {
		t.Errorf("desired is %q, written by %q", feature.Spec.Desired, owner)
	}
	p.want(t, 0, `"desired": "Disabled"`, "", "disable", "Dynamic", "-n", "setting", "-o", "json")
	p.want(t, 0, `has no wish set`, "", "unset", "Dynamic", "-n", "setting")
	p.want(t, 1, "", `dynamic-features=setting/Static`, "enable", "Static", "-n", "setting")

	// A wish that was made while the feature was dynamic is ignored from then on.
	p.want(t, 0, `Enabled`, "", "enable", "Dynamic", "-n", "setting")
	p.status(t, "setting", "Dynamic", func(s *v1alpha1.FeatureStatus) { s.Dynamic = false })
	p.want(t, 1, "", `stored and ignored.*dynamic-features=setting/Dynamic`, "enable", "Dynamic", "-n", "setting")
	p.status(t, "setting", "Dynamic", func(s *v1alpha1.FeatureStatus) { s.Locked = true })
	p.want(t, 1, "", `stored and ignored.*locked.*unset Dynamic -n setting`, "enable", "Dynamic", "-n", "setting")
	// What no flag of the server makes possible is not offered.
	p.want(t, 1, "", `\Aerror: [^\n]*forbidden: [^\n]*locked to its default, which is Enabled; neither the API nor a flag can change it in this version\n\z`,
		"disable", "Locked", "-n", "setting")
}

func testWaiting(t *testing.T, p *plugin) {
	p.namespace(t, "waiting", map[string]v1alpha1.FeatureStatus{
		"Good": {State: v1alpha1.StateOff, Dynamic: true},
		"Bad":  {State: v1alpha1.StateOn, Dynamic: true},
		"Slow": {State: v1alpha1.StateOff, Dynamic: true},
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := p.command(ctx, "enable", "Good", "-n", "waiting", "--wait")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	task := func(done int64) func(*v1alpha1.FeatureStatus) {
		return func(s *v1alpha1.FeatureStatus) {
			s.State = v1alpha1.StateTurningOn
			s.Tasks = []v1alpha1.Task{{Name: "Prepare", State: v1alpha1.TaskRunning, Done: done, Total: ptr.To[int64](4)}}
		}
	}
	// Each step is taken when the program has shown the one before.
	lines := bufio.NewScanner(out)
	for _, step := range []struct {
		shown string
		next  func(*v1alpha1.FeatureStatus)
	}{
		{"feature.features.k8s.io/Good is to be Enabled", nil},
		{"Good Off, the wish has not been seen by the feature's server yet", task(1)},
		{"Good TurningOn: Prepare [#####---------------] 25% 1/4", task(2)},
		{"Good TurningOn: Prepare [##########----------] 50% 2/4", func(s *v1alpha1.FeatureStatus) { s.State, s.Tasks = v1alpha1.StateOn, nil }},
		{"Good On", nil},
	} {
		if !lines.Scan() {
			t.Fatalf("the program ended instead of showing %q: %v", step.shown, lines.Err())
		}
		if lines.Text() != step.shown {
			t.Fatalf("the program shows %q, want %q", lines.Text(), step.shown)
		}
		if step.next != nil {
			p.status(t, "waiting", "Good", step.next)
		}
	}
	if lines.Scan() {
		t.Errorf("one more line: %s", lines.Text())
	}
	if err := command.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
	p.want(t, 0, `Good On\n\z`, "", "enable", "Good", "-n", "waiting", "--wait")

	p.status(t, "waiting", "Bad", func(s *v1alpha1.FeatureStatus) {
		s.State = v1alpha1.StateTurningOff
	})
	failing := p.command(ctx, "disable", "Bad", "-n", "waiting", "--wait")
	said, err := failing.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	shown, err := failing.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := failing.Start(); err != nil {
		t.Fatal(err)
	}
	for lines = bufio.NewScanner(shown); lines.Scan() && !strings.HasPrefix(lines.Text(), "Bad "); {
	}
	p.status(t, "waiting", "Bad", func(s *v1alpha1.FeatureStatus) {
		s.Tasks = []v1alpha1.Task{{Name: "Sweep", State: v1alpha1.TaskFailed, Attempts: 1, Message: "disk is full"}}
	})
	for lines.Scan() {
	}
	problem := bufio.NewScanner(said)
	problem.Scan()
	if !strings.HasPrefix(problem.Text(), "error: the task Sweep failed (attempt 1): disk is full") {
		t.Errorf("the program says %q", problem.Text())
	}
	if err := failing.Wait(); err == nil || failing.ProcessState.ExitCode() != 1 {
		t.Errorf("the program ended with %v, want exit code 1", err)
	}

	p.want(t, 1, `Slow Off, the wish has not been seen`, `the time of 100ms is up; the wish stays`, "enable", "Slow", "-n", "waiting", "--wait", "--timeout", "100ms")
}

func testBadInput(t *testing.T, p *plugin) {
	p.namespace(t, "input", map[string]v1alpha1.FeatureStatus{"NodeSwap": {}})
	p.namespace(t, "input-empty", nil)
	p.want(t, 1, "", `no feature "nodeswp" in the namespace input; did you mean NodeSwap\?`, "describe", "nodeswp", "-n", "input")
	p.want(t, 1, "", `no feature "NodeSwap" in the namespace input-empty; did you mean NodeSwap -n input\?.*list -A`, "enable", "NodeSwap", "-n", "input-empty")
	p.want(t, 0, "", `No features in namespace input-empty; -A`, "list", "-n", "input-empty")
	p.want(t, 1, "", `"xml" is not known; known are .*json.*name.*wide.*yaml`, "list", "-o", "xml")
	p.want(t, 1, "", `"xml" is not known; known are json, name, yaml`, "upgrade-check", "-o", "xml")
	p.want(t, 1, "", `"wide" is not known`, "enable", "NodeSwap", "-n", "input", "-o", "wide")
	p.want(t, 1, "", `--state "Up" is not known; known are On, Off, TurningOn, TurningOff`, "list", "--state", "Up")
	p.want(t, 1, "", `give the name of one feature`, "describe")
	p.want(t, 1, "", `--timeout needs --wait`, "enable", "NodeSwap", "--timeout", "1s")
	p.want(t, 1, "", `--timeout -1s is negative`, "enable", "NodeSwap", "--wait", "--timeout", "-1s")
	p.want(t, 1, "", `unknown command "nonsense"`, "nonsense")
	p.want(t, 1, "", `--help`, "list", "--nonsense")

	nowhere := &plugin{binary: p.binary, kubeconfig: filepath.Join(t.TempDir(), "none")}
	nowhere.want(t, 1, "", `no cluster is configured; set --kubeconfig`, "list")
	nowhere.want(t, 1, "", `reading the kubeconfig: .*set --kubeconfig`, "list", "--kubeconfig", nowhere.kubeconfig)
}

// testAPIMissing asks a control plane of which the API has been taken away.
func testAPIMissing(t *testing.T, _ *plugin) {
	p := start(t)
	p.namespace(t, "missing", map[string]v1alpha1.FeatureStatus{"Foo": {}})
	services := p.server.Dynamic.Resource(apiServices)
	if err := services.Delete(t.Context(), "v1alpha1.features.k8s.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		_, stderr, code := p.run(t, "list", "-n", "missing")
		return poll.Want(code == 1 && strings.Contains(stderr, "does not serve features.k8s.io/v1alpha1; register Annex with it"), stderr)
	})
	p.want(t, 1, "", `register Annex with it`, "describe", "Foo", "-n", "missing")
	p.want(t, 1, "", `register Annex with it`, "enable", "Foo", "-n", "missing")
}

// TestKubectlFindsThePlugin runs it as users do.
func TestKubectlFindsThePlugin(t *testing.T) {
	p := start(t)
	t.Setenv("PATH", filepath.Dir(p.binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
	k := framework.NewKubectl(t, root, p.kubeconfig)
	p.namespace(t, "plugin", map[string]v1alpha1.FeatureStatus{"Foo": {State: v1alpha1.StateOn}})
	k.Want(t, `^Foo\s+On`, "feature", "list", "-n", "plugin")
	k.Want(t, `Usage:\n\s+kubectl feature \[command\]`, "feature", "--help")
}
