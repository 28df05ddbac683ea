// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
)

const (
	quickTimeout = 4 * time.Minute
	allTimeout   = 30 * time.Minute
	passed       = "passed"
)

// TestSpecs runs Kubernetes' specs in parallel against one `annex up`.
func TestSpecs(t *testing.T) {
	t.Parallel()
	names, timeout := chosen(t)
	dir := reportDir(t)
	server := framework.StartProcess(t, framework.Annex(t, root), t.TempDir(), "--log-file="+filepath.Join(dir, "annex.log"))
	kubectl := framework.NewKubectl(t, root, server.Kubeconfig())
	t.Logf("%d specs, %d at a time", len(names), *procs)
	began := time.Now()
	output := runSpecs(t, dir, timeout, names,
		"-kubeconfig="+server.Kubeconfig(), "-kubectl-path="+kubectl.Command(t.Context()).Path, "-provider=skeleton", "-dump-logs-on-failure=false")
	outcomes := readReport(t, filepath.Join(dir, reportFile))
	counts := map[string]int{}
	for _, name := range names {
		got, ok := outcomes[name]
		if !ok {
			got.State = "lost"
		}
		counts[got.State]++
		if got.State != passed {
			t.Errorf("%s: %s\n%s", got.State, name, got.Failure)
		}
	}
	t.Logf("%s of %d specs, %d of them of conformance, in %s", inWords(counts), len(names), conformanceOf(t, names), time.Since(began).Round(time.Second))
	t.Logf("not run, %d of %d specs:\n%s", len(specs.skipped), len(specs.names()), specs.reasons())
	if len(outcomes) == 0 {
		t.Errorf("no report; the specs said:\n%s", output)
	}
}

// reportDir returns an absolute path.
func reportDir(t *testing.T) string {
	t.Helper()
	dir := *reports
	if dir == "" {
		return t.TempDir()
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		t.Fatalf("-reports: %v", err)
	}
	return dir
}

// chosen returns the names of the specs to run, and how long they may take.
func chosen(t *testing.T) ([]string, time.Duration) {
	t.Helper()
	if *only != "" {
		wanted, err := regexp.Compile(*only)
		if err != nil {
			t.Fatalf("-only: %v", err)
		}
		names := slices.DeleteFunc(specs.names(), func(name string) bool { return !wanted.MatchString(name) })
		if len(names) == 0 {
			t.Fatalf("-only: no spec's name matches %s", *only)
		}
		return names, allTimeout
	}
	if *all {
		return slices.Concat(specs.quick, specs.rest), allTimeout
	}
	return specs.quick, quickTimeout
}

// runSpecs has Ginkgo's command run the specs, and returns what it said. Whether they passed is in its report.
func runSpecs(t *testing.T, dir string, timeout time.Duration, names []string, flags ...string) string {
	t.Helper()
	namesFile := filepath.Join(dir, "names.txt")
	if err := os.WriteFile(namesFile, []byte(strings.Join(names, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout+time.Minute)
	defer cancel()
	args := []string{
		"run", "--procs=" + strconv.Itoa(*procs), "--timeout=" + timeout.String(), "--no-color",
		"--output-dir=" + dir, "--json-report=" + reportFile, filepath.Join(bin, cluster.Specs), "--", "-specs=" + namesFile,
	}
	command := exec.CommandContext(ctx, filepath.Join(bin, cluster.Ginkgo), append(args, flags...)...)
	// Some specs leave files behind.
	command.Dir = t.TempDir()
	command.Env = append(command.Environ(), "HOME="+command.Dir, "TMPDIR="+command.Dir)
	// Ginkgo runs processes of its own, which must not stay behind.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	if writeErr := os.WriteFile(filepath.Join(dir, "output.txt"), output.Bytes(), 0o644); writeErr != nil {
		t.Error(writeErr)
	}
	if ctx.Err() != nil {
		t.Errorf("the specs did not end within %s: %v", timeout, err)
	}
	return output.String()
}

const reportFile = "report.json"

// outcome is what Ginkgo's report has of a spec.
type outcome struct {
	ContainerHierarchyTexts []string
	LeafNodeText            string
	State                   string
	Failure                 failure
}

type failure struct {
	Message  string
	Location struct {
		FileName   string
		LineNumber int
	}
}

func (f failure) String() string {
	if f.Message == "" {
		return ""
	}
	_, file, _ := strings.Cut(f.Location.FileName, "/test/e2e/")
	return fmt.Sprintf("%s\nat %s:%d", f.Message, file, f.Location.LineNumber)
}

// readReport returns the outcomes by the specs' names.
func readReport(t *testing.T, path string) map[string]outcome {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return nil
	}
	var suites []struct{ SpecReports []outcome }
	if err := json.Unmarshal(content, &suites); err != nil {
		t.Errorf("read Ginkgo's report: %v", err)
	}
	outcomes := map[string]outcome{}
	for _, suite := range suites {
		for _, o := range suite.SpecReports {
			outcomes[strings.Join(append(o.ContainerHierarchyTexts, o.LeafNodeText), " ")] = o
		}
	}
	return outcomes
}

// conformanceOf counts the specs that a distribution of Kubernetes must pass.
func conformanceOf(t *testing.T, names []string) int {
	t.Helper()
	count := 0
	for _, s := range upstream(t) {
		if s.Conformance && slices.Contains(names, s.Name) {
			count++
		}
	}
	return count
}

func inWords(counts map[string]int) string {
	var words []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %s", counts[what], what))
	}
	return strings.Join(words, ", ")
}
