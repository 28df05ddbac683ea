// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// everyday is where the manifests are as kubectl sees it, which runs in the repository.
const everyday = "test/compatibility/clients/everyday/"

// step is one command. The words of its line are separated by spaces; '…' keeps some together.
type step struct {
	line string
	// want is what the output matches. It begins with "!" where kubectl has to fail, and with "~" where it may take a moment.
	want string
	// input is the standard input.
	input string
	// editor is a command of sed, with which KUBE_EDITOR changes the file.
	editor string
}

// TestKubectlEveryday goes through kubectl's commands that need no pods, each with something that it has to say or to bring about.
func TestKubectlEveryday(t *testing.T) {
	t.Parallel()
	server := framework.Start(t)
	k := framework.NewKubectl(t, root, server.Kubeconfig)
	k.Run(t, "apply", "-f", everyday+"everyday.yaml")
	k.Run(t, "wait", "--for=condition=Established", "crd/lamps.everyday.example.com", "--timeout=60s")
	k.Run(t, "apply", "-f", everyday+"lamps.yaml")
	// The namespace of all commands that do not name another one.
	k.Run(t, "config", "set-context", "--current", "--namespace=everyday")
	t.Run("get --watch", func(t *testing.T) {
		t.Parallel()
		checkWatch(t, k)
	})
	for cascade, check := range map[string]func(*testing.T, *framework.Kubectl){
		"background": deleteInBackground, "foreground": deleteInForeground, "orphan": deleteOrphaning,
	} {
		t.Run("delete --cascade="+cascade, func(t *testing.T) {
			t.Parallel()
			check(t, k)
		})
	}
	for _, cases := range []map[string][]step{asking, changing, making, deleting} {
		for name, steps := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, s := range steps {
					s.run(t, k)
				}
			})
		}
	}
}

func (s step) run(t *testing.T, k *framework.Kubectl) {
	t.Helper()
	mark, pattern := "", s.want
	if strings.HasPrefix(pattern, "!") || strings.HasPrefix(pattern, "~") {
		mark, pattern = pattern[:1], pattern[1:]
	}
	wanted := regexp.MustCompile(`(?m)` + pattern)
	poll.Eventually(t, patience, "kubectl "+s.line+" prints "+s.want, func(context.Context) error {
		out, err := s.try(t, k)
		if (err != nil) == (mark == "!") && wanted.MatchString(out) {
			return nil
		}
		failed := errors.Join(err, errors.New(out))
		if mark != "~" {
			return poll.Permanent(failed)
		}
		return failed
	})
}

func (s step) try(t *testing.T, k *framework.Kubectl) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := k.Command(ctx, words(s.line)...)
	command.Stdin = strings.NewReader(s.input)
	command.Env = append(command.Env, "KUBECTL_APPLYSET=true")
	if s.editor != "" {
		command.Env = append(command.Env, "KUBE_EDITOR="+editorWith(t, s.editor))
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

// words splits a line as a shell does that knows nothing but single quotes.
func words(line string) []string {
	var out []string
	var word strings.Builder
	quoted, begun := false, false
	for _, r := range line + " " {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case r == ' ' && !quoted:
			if begun {
				out = append(out, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	return out
}

func editorWith(t *testing.T, expression string) string {
	t.Helper()
	sed, err := exec.LookPath("sed")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec "+sed+" -i '"+expression+"' \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
