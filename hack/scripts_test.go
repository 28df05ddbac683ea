// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hack_test runs the scripts behind make in small repositories of their own.
package hack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	formatted   = "package example\n"
	unformatted = "package   example\n"
	modFile     = "module example.org/module\n\ngo 1.26.0\n"
	untidyMod   = modFile + "\nrequire example.org/nobody v1.0.0\n"
)

// offlineRepository makes a repository of the files, with the scripts in hack/, and returns a function that runs a command there without network.
func offlineRepository(t *testing.T, files map[string]string) (dir string, run func(script string, args ...string) (string, bool)) {
	t.Helper()
	return repository(t, files, "off")
}

func repository(t *testing.T, files map[string]string, proxy string) (dir string, run func(script string, args ...string) (string, bool)) {
	t.Helper()
	dir = t.TempDir()
	scripts, err := filepath.Glob("*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		content, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "hack/"+script, string(content), 0o755)
	}
	for name, content := range files {
		write(t, dir, name, content, 0o644)
	}
	run = func(name string, args ...string) (string, bool) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY="+proxy)
		out, err := cmd.CombinedOutput()
		return string(out), err == nil
	}
	if out, ok := run("git", "init", "--quiet"); !ok {
		t.Fatal(out)
	}
	return dir, run
}

func write(t *testing.T, dir, name, content string, mode os.FileMode) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestFilesAreThoseThatGitKeepsAndThatExist(t *testing.T) {
	t.Parallel()
	dir, run := offlineRepository(t, map[string]string{
		".gitignore": "/bin/\n", "bin/built.go": formatted, "with space.go": formatted, "new.go": formatted, "gone.go": formatted, "sub/below.go": formatted, "text": "",
	})
	if out, ok := run("git", "add", "gone.go", "sub"); !ok {
		t.Fatal(out)
	}
	if err := os.Remove(filepath.Join(dir, "gone.go")); err != nil {
		t.Fatal(err)
	}
	out, ok := run("hack/files.sh", "*.go")
	if want := "new.go\x00sub/below.go\x00with space.go\x00"; !ok || sorted(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// sorted sorts a list that git prints in two parts, indexed and new files.
func sorted(list string) string {
	names := strings.Split(strings.TrimSuffix(list, "\x00"), "\x00")
	slices.Sort(names)
	return strings.Join(names, "\x00") + "\x00"
}

func TestFmt(t *testing.T) {
	t.Parallel()
	dir, run := offlineRepository(t, map[string]string{"good.go": formatted, "bad.go": unformatted})
	if out, ok := run("hack/fmt.sh", "-l"); ok || out != "bad.go\n" {
		t.Errorf("ok is %v, output %q", ok, out)
	}
	if got := read(t, dir, "bad.go"); got != unformatted {
		t.Errorf("-l wrote %q", got)
	}
	if out, ok := run("hack/fmt.sh"); !ok {
		t.Error(out)
	}
	if out, ok := run("hack/fmt.sh", "-l"); !ok || out != "" {
		t.Errorf("after formatting: ok is %v, output %q", ok, out)
	}
	write(t, dir, "broken.go", "package {", 0o644)
	if out, ok := run("hack/fmt.sh", "-l"); ok || !strings.Contains(out, "broken.go") {
		t.Errorf("a file that does not parse: ok is %v, output %q", ok, out)
	}
}

func TestTidyLooksAtNestedModules(t *testing.T) {
	t.Parallel()
	dir, run := offlineRepository(t, map[string]string{
		"go.mod": modFile, "house.go": formatted,
		"nested/go.mod": untidyMod, "nested/house.go": formatted,
		"testdata/mod/go.mod": untidyMod,
	})
	if out, ok := run("hack/tidy.sh", "-diff"); ok || !strings.Contains(out, "nested/go.mod is not tidy") {
		t.Errorf("ok is %v, output %q", ok, out)
	}
	if got := read(t, dir, "nested/go.mod"); got != untidyMod {
		t.Errorf("-diff wrote %q", got)
	}
	if out, ok := run("hack/tidy.sh"); !ok {
		t.Error(out)
	}
	if got := read(t, dir, "nested/go.mod"); got != modFile {
		t.Errorf("tidied to %q", got)
	}
	if out, ok := run("hack/tidy.sh", "-diff"); !ok {
		t.Error(out)
	}
}

func TestVerifyNamesTheRepair(t *testing.T) {
	t.Parallel()
	_, run := offlineRepository(t, nil)
	if out, ok := run("hack/verify.sh", "verify-x", "make x", "true"); !ok || !strings.HasPrefix(out, "ok verify-x (") {
		t.Errorf("ok is %v, output %q", ok, out)
	}
	out, ok := run("hack/verify.sh", "verify-x", "make x", "sh", "-c", "echo the finding; exit 3")
	if ok || !strings.HasPrefix(out, "the finding\nFAILED verify-x (") || !strings.HasSuffix(out, "to repair it: make x\n") {
		t.Errorf("ok is %v, output %q", ok, out)
	}
}

// TestProtocIsInstalledWhereItIsMissing gives the script a PATH with no protoc and an apt-get that makes one.
func TestProtocIsInstalledWhereItIsMissing(t *testing.T) {
	t.Parallel()
	dir, _ := offlineRepository(t, map[string]string{"log": ""})
	bin := filepath.Join(dir, "bin")
	write(t, dir, "bin/id", "#!/bin/sh\necho 0\n", 0o755)
	write(t, dir, "bin/protoc", "#!/bin/sh\necho the protoc there was\n", 0o755)
	write(t, dir, "bin/apt-get", "#!/bin/sh\necho \"$*\" >>"+dir+"/log\n"+
		"case $1 in install) echo 'echo the new protoc' >"+bin+"/protoc; /bin/chmod +x "+bin+"/protoc;; esac\n", 0o755)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	install := func() string {
		cmd := exec.Command(bash, "hack/protoc.sh")
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out, log := install(), read(t, dir, "log"); out != "the protoc there was\n" || log != "" {
		t.Errorf("with protoc: output %q, apt-get was asked %q", out, log)
	}
	if err := os.Remove(filepath.Join(bin, "protoc")); err != nil {
		t.Fatal(err)
	}
	out, log := install(), read(t, dir, "log")
	if out != "the new protoc\n" || !strings.HasSuffix(log, " protobuf-compiler\n") {
		t.Errorf("without protoc: output %q, apt-get was asked %q", out, log)
	}
}

func TestAPartThatFailsKeepsNoOtherFromRunning(t *testing.T) {
	t.Parallel()
	_, run := offlineRepository(t, map[string]string{"Makefile": "first last:\n\t@echo $@ runs\nbroken:\n\t@false\n"})
	out, ok := run("hack/parts.sh", "first", "broken", "last")
	if ok {
		t.Error("a failed part is not in the exit code")
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range []string{"ok first (", "FAILED broken (", "ok last ("} {
		if at := len(lines) - 3 + i; at < 0 || !strings.HasPrefix(lines[at], want) {
			t.Errorf("line %d of the summary does not begin with %q:\n%s", i+1, want, out)
		}
	}
	if !slices.Contains(lines, "last runs") {
		t.Errorf("the part after the failed one did not run:\n%s", out)
	}
	if out, ok := run("hack/parts.sh", "first", "last"); !ok {
		t.Errorf("parts that all end well fail together:\n%s", out)
	}
}
