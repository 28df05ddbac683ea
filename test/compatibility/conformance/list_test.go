// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-annex/annex/test/framework/cluster"
)

// Sections of specs.txt that are run. Each other one is a reason.
const (
	quickSection = "run, also by make test"
	restSection  = "run"
)

// list is what becomes of the specs.
type list struct {
	// quick are run always, rest only with -all.
	quick, rest []string
	// skipped has the reason of each.
	skipped map[string]string
}

// parse reads specs.txt: names below headings.
func parse(content []byte) (list, error) {
	found := list{skipped: map[string]string{}}
	seen, section := map[string]bool{}, ""
	var errs []error
	for n, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSpace(line)
		heading, isHeading := strings.CutPrefix(line, "## ")
		switch {
		case isHeading:
			section = heading
		case line == "" || strings.HasPrefix(line, "# "):
		case section == "":
			errs = append(errs, fmt.Errorf("line %d is below no heading", n+1))
		case seen[line]:
			errs = append(errs, fmt.Errorf("line %d has a spec for the second time: %s", n+1, line))
		case section == quickSection:
			found.quick = append(found.quick, line)
		case section == restSection:
			found.rest = append(found.rest, line)
		default:
			found.skipped[line] = section
		}
		seen[line] = true
	}
	return found, errors.Join(errs...)
}

// names has every spec once, sorted.
func (l list) names() []string {
	all := slices.Concat(l.quick, l.rest)
	for name := range l.skipped {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// reasons says why how many are not run, a reason a line.
func (l list) reasons() string {
	counts := map[string]int{}
	for _, reason := range l.skipped {
		counts[reason]++
	}
	var lines []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%3d %s", counts[reason], reason))
	}
	return strings.Join(lines, "\n")
}

// spec is what the binary with the specs prints of each.
type spec struct {
	Name        string
	Conformance bool
}

func upstream(t *testing.T) []spec {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(bin, cluster.Specs), "-list-specs")
	// Where specs are declared, some make directories.
	command.Env = append(command.Environ(), "TMPDIR="+t.TempDir())
	output, err := command.Output()
	if err != nil {
		t.Fatalf("list the specs: %v", err)
	}
	var found []spec
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		var s spec
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatalf("list the specs: %v in %s", err, lines.Text())
		}
		found = append(found, s)
	}
	return found
}

func TestEverySpecIsRunOrSkippedForAReason(t *testing.T) {
	t.Parallel()
	var want []string
	for _, s := range upstream(t) {
		want = append(want, s.Name)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, specs.names()); diff != "" {
		t.Errorf("specs.txt must name each of Kubernetes' specs (-want,+got):\n%s", diff)
	}
}

func TestParseNamesEachSpecOnce(t *testing.T) {
	t.Parallel()
	got, err := parse([]byte("# about\n## " + quickSection + "\n[a]\n\n## " + restSection + "\n[b]\n## needs a node\n[c]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := list{quick: []string{"[a]"}, rest: []string{"[b]"}, skipped: map[string]string{"[c]": "needs a node"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(list{})); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	for name, content := range map[string]string{
		"no heading": "[a]\n",
		"twice":      "## run\n[a]\n## needs a node\n[a]\n",
	} {
		if _, err := parse([]byte(content)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
