// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package hack_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPIDiffReportsWhatBreaksPromisedPackages(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"go.mod":                "module example.org/module\n\ngo 1.26.0\n",
		"hack/apidiff.txt":      "",
		"hack/tools/go.mod":     read(t, "tools", "go.mod"),
		"hack/tools/go.sum":     read(t, "tools", "go.sum"),
		"featuregate/gate.go":   "// Package featuregate is promised.\npackage featuregate\n\n// Enabled reports nothing.\nfunc Enabled(name string) bool { return len(name) > 0 }\n",
		"server/clock/clock.go": "// Package clock is not a stable API.\npackage clock\n\n// Now does nothing.\nfunc Now() {}\n",
	}
	sources, err := filepath.Glob("importrules/*.go")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources of importrules: %v", err)
	}
	for _, source := range sources {
		if !strings.HasSuffix(source, "_test.go") {
			files["hack/"+source] = read(t, ".", source)
		}
	}
	// The tool is a published module, which may have to be downloaded.
	dir, run := repository(t, files, os.Getenv("GOPROXY"))
	check := func(wantOK bool, wants ...string) {
		t.Helper()
		out, ok := run("hack/apidiff.sh")
		if ok != wantOK {
			t.Errorf("apidiff.sh succeeded: %t, want %t\n%s", ok, wantOK, out)
		}
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("got\n%s\nwant %s", out, want)
			}
		}
	}
	check(true, "no release to compare with")
	for _, command := range [][]string{{"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "One"}, {"tag", "v0.1.0"}} {
		if out, ok := run("git", command...); !ok {
			t.Fatal(out)
		}
	}
	check(true)
	write(t, dir, "server/clock/clock.go", strings.ReplaceAll(files["server/clock/clock.go"], "Now()", "Now(zone string)"), 0o644)
	write(t, dir, "featuregate/gate.go", files["featuregate/gate.go"]+"\n// Known is new.\nfunc Known() {}\n", 0o644)
	check(true)
	write(t, dir, "featuregate/gate.go", strings.ReplaceAll(files["featuregate/gate.go"], "name string", "name []string"), 0o644)
	check(false, "incompatible with v0.1.0", "example.org/module/featuregate: Enabled: changed from func(string) bool")
	out, _ := run("hack/apidiff.sh")
	_, change, _ := strings.Cut(out, "\n")
	write(t, dir, "hack/apidiff.txt", change, 0o644)
	check(true)
	if err := os.RemoveAll(filepath.Join(dir, "featuregate")); err != nil {
		t.Fatal(err)
	}
	check(false, "example.org/module/featuregate: removed")
}
