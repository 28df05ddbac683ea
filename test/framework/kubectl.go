// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

// Kubectl runs Kubernetes' own kubectl against a server, in the repository.
type Kubectl struct {
	binary, root, kubeconfig, home string
}

// NewKubectl builds kubectl once in a test process. root is the repository as seen from the test's directory.
func NewKubectl(t testing.TB, root, kubeconfig string) *Kubectl {
	t.Helper()
	binary := build(t, "kubectl", root, ".", "-C=test/modules/kubectl", "-ldflags=-X k8s.io/component-base/version.gitVersion="+cluster.Version)
	return &Kubectl{binary: binary, root: root, kubeconfig: kubeconfig, home: t.TempDir()}
}

// Command returns a kubectl that has not been started.
func (k *Kubectl) Command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, k.binary, args...)
	command.Dir = k.root
	command.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig, "HOME="+k.home)
	return command
}

// Run returns what kubectl printed, and fails the test if it failed.
func (k *Kubectl) Run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := k.Try(t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Try returns what kubectl printed on both streams.
func (k *Kubectl) Try(t testing.TB, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := k.Command(ctx, args...).CombinedOutput()
	return string(out), err
}

// Want fails the test unless kubectl succeeds and prints something that matches.
func (k *Kubectl) Want(t testing.TB, pattern string, args ...string) {
	t.Helper()
	out := k.Run(t, args...)
	if !regexp.MustCompile(`(?m)` + pattern).MatchString(out) {
		t.Errorf("kubectl %s does not print %s:\n%s", strings.Join(args, " "), pattern, out)
	}
}

// WantEventually is Want for what a host learns with a delay: OpenAPI documents a second or so after their APIService.
func (k *Kubectl) WantEventually(t testing.TB, pattern string, args ...string) {
	t.Helper()
	err := poll.Until(t.Context(), 30*time.Second, func(context.Context) error {
		out, err := k.Try(t, args...)
		return poll.Want(err == nil && regexp.MustCompile(`(?m)`+pattern).MatchString(out), out)
	})
	if err != nil {
		t.Errorf("kubectl %s does not print %s: %v", strings.Join(args, " "), pattern, err)
	}
}

// WantError fails the test unless kubectl fails and prints something that matches.
func (k *Kubectl) WantError(t testing.TB, pattern string, args ...string) {
	t.Helper()
	out, err := k.Try(t, args...)
	if err == nil || !regexp.MustCompile(`(?m)`+pattern).MatchString(out) {
		t.Errorf("kubectl %s: error %v, does not print %s:\n%s", strings.Join(args, " "), err, pattern, out)
	}
}
