// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	// blockTimeout is the deadline of one block of commands.
	blockTimeout = 2 * time.Minute
	// repeatTimeout is the deadline of a block that is repeated.
	repeatTimeout = 2 * time.Minute
)

var (
	// languages lists the languages of code blocks. Only sh is run.
	languages = []string{"sh", "text", "yaml", "json", "go", "promql"}
	// serve matches the commands that start `annex up`.
	serve = regexp.MustCompile(`^(?:make run(?: ARGS='(.*)')?|bin/annex up(?: (.*))?)$`)
	// failure matches the output of a kubectl that failed.
	failure = regexp.MustCompile(`(?m)^(Error from server|error:|Error:)`)
)

// TestCommands runs the commands of the README and of docs, and compares what they print.
func TestCommands(t *testing.T) {
	t.Parallel()
	built := tools{
		annex:   framework.Annex(t, root),
		feature: framework.Build(t, "kubectl-feature", root, "./cmd/kubectl-feature"),
		kubectl: framework.NewKubectl(t, root, "").Command(t.Context()).Path,
	}
	var shared *framework.Process
	for _, document := range manual(t) {
		blocks := commands(t, document)
		if len(blocks) == 0 {
			continue
		}
		session := newSession(t, built)
		if !slices.ContainsFunc(blocks, (*block).starts) {
			if shared == nil {
				shared = framework.StartProcess(t, built.annex, t.TempDir())
			}
			session.use(t, shared)
		}
		t.Run(document, func(t *testing.T) {
			for _, b := range blocks {
				if !session.run(t, b) {
					t.Fatalf("%s:%d: the commands after this block are not run", document, b.line)
				}
			}
		})
	}
}

// TestCodeBlocks checks the languages of code blocks, and the reasons of those that are not run.
func TestCodeBlocks(t *testing.T) {
	t.Parallel()
	for _, document := range manual(t) {
		for _, b := range parse(document, read(t, document)) {
			const shortest = 10
			switch {
			case !slices.Contains(languages, b.language):
				t.Errorf("%s:%d: the language of the code block is %q, want one of %q", document, b.line, b.language, languages)
			case b.language != "sh" && (b.notRun != "" || b.repeated != ""):
				t.Errorf("%s:%d: a comment for a block that is never run", document, b.line)
			case b.repeated != "" && b.output == nil:
				t.Errorf("%s:%d: a repeated block without expected output", document, b.line)
			case b.notRun != "" && len(b.notRun) < shortest, b.repeated != "" && len(b.repeated) < shortest:
				t.Errorf("%s:%d: a comment without a reason", document, b.line)
			}
		}
	}
}

// commands returns the blocks of a document that are run.
func commands(t *testing.T, document string) []*block {
	t.Helper()
	return slices.DeleteFunc(parse(document, read(t, document)), func(b *block) bool { return b.language != "sh" || b.notRun != "" })
}

// starts reports whether the block starts `annex up`.
func (b *block) starts() bool { return serve.MatchString(b.text) }

type tools struct{ annex, feature, kubectl string }

// A session is a shell for one document.
type session struct {
	tools
	// dir is the working directory, and state the file with the exported variables.
	dir, state string
	process    *framework.Process
}

func newSession(t *testing.T, built tools) *session {
	t.Helper()
	s := &session{tools: built, dir: t.TempDir(), state: filepath.Join(t.TempDir(), "variables")}
	artifacts, err := filepath.Abs(filepath.Join(root, "artifacts"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"artifacts": artifacts, "bin/annex": built.annex, "bin/kubectl-feature": built.feature} {
		if err := os.Symlink(target, filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// use lets the session use a process that is shared with other documents.
func (s *session) use(t *testing.T, process *framework.Process) {
	t.Helper()
	if err := os.Symlink(filepath.Dir(process.Kubeconfig()), filepath.Join(s.dir, ".annex")); err != nil {
		t.Fatal(err)
	}
	s.export(t)
}

// export sets KUBECONFIG, as the README does after the start.
func (s *session) export(t *testing.T) {
	t.Helper()
	if out, err := s.bash(t.Context(), "export KUBECONFIG=$PWD/.annex/kubeconfig"); err != nil {
		t.Fatalf("set KUBECONFIG: %v\n%s", err, out)
	}
}

// start starts `annex up`, or restarts it.
func (s *session) start(t *testing.T, flags string) {
	t.Helper()
	if s.process != nil {
		if err := s.process.Interrupt(); err != nil {
			t.Errorf("annex up ended with: %v", err)
		}
	}
	s.process = framework.StartProcess(t, s.annex, filepath.Join(s.dir, ".annex"), strings.Fields(strings.ReplaceAll(flags, "'", ""))...)
	s.export(t)
}

// run runs a block and reports whether it printed what the document shows.
func (s *session) run(t *testing.T, b *block) bool {
	t.Helper()
	if match := serve.FindStringSubmatch(b.text); match != nil {
		s.start(t, match[1]+match[2])
		return !t.Failed()
	}
	attempt := func(ctx context.Context) error {
		out, err := s.bash(ctx, b.text)
		return check(b, out, err)
	}
	err := attempt(t.Context())
	if err != nil && b.repeated != "" {
		err = poll.Until(t.Context(), repeatTimeout, attempt)
	}
	if err != nil {
		t.Errorf("%s:%d:\n%s\n%v", b.document, b.line, b.text, err)
	}
	return err == nil
}

// check returns an error unless a block ended and printed as the document says.
func check(b *block, out string, err error) error {
	want := ""
	if b.output != nil {
		want = b.output.text
	}
	switch {
	case failure.MatchString(want) && err == nil:
		return fmt.Errorf("succeeded, want an error:\n%s", out)
	case !failure.MatchString(want) && err != nil:
		return fmt.Errorf("%w:\n%s", err, out)
	case b.output == nil && strings.Contains(out, "Warning:"):
		return fmt.Errorf("printed a warning that the document does not show:\n%s", out)
	case b.output != nil && !matches(normalize(want), normalize(out)):
		return fmt.Errorf("printed (-document,+printed):\n%s\nin full:\n%s", cmp.Diff(normalize(want), normalize(out)), out)
	}
	return nil
}

// bash runs commands in the working directory with the variables that earlier blocks exported.
func (s *session) bash(ctx context.Context, commands string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, blockTimeout)
	defer cancel()
	script := fmt.Sprintf("[ ! -e %[1]s ] || . %[1]s\ntrap 'export -p > %[1]s' EXIT\nset -eo pipefail\ncd %[2]s\n%[3]s", s.state, s.dir, commands)
	command := exec.CommandContext(ctx, "bash", "-c", script)
	command.Env = append(os.Environ(), "HOME="+s.dir, "PATH="+filepath.Dir(s.kubectl)+":"+os.Getenv("PATH"))
	command.WaitDelay = time.Second
	out, err := command.CombinedOutput()
	return strings.ReplaceAll(string(out), s.dir, "$PWD"), err
}

func TestCheck(t *testing.T) {
	t.Parallel()
	failed := fmt.Errorf("exit status 1")
	for name, tc := range map[string]struct {
		output *block
		out    string
		err    error
		want   string
	}{
		"as shown":                   {output: &block{text: "a"}, out: "a\n"},
		"other output":               {output: &block{text: "a"}, out: "b\n", want: "-document,+printed"},
		"no output is shown":         {out: "b\n"},
		"a failure":                  {out: "b\n", err: failed, want: "exit status 1"},
		"a failure that is shown":    {output: &block{text: "Error from server: b"}, out: "Error from server: b\n", err: failed},
		"a failure that is missing":  {output: &block{text: "Error from server: b"}, out: "b", want: "succeeded, want an error"},
		"a warning":                  {out: "Warning: b", want: "printed a warning"},
		"a warning that is expected": {output: &block{text: "Warning: b"}, out: "Warning: b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := check(&block{output: tc.output}, tc.out, tc.err)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
