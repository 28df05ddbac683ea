// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectlfeature

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// terminal is a pseudo-terminal, and what a program has written to it.
type terminal struct {
	program *os.File

	mu   sync.Mutex
	text strings.Builder
}

func newTerminal(t *testing.T, columns uint16) *terminal {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("unlock the terminal: %v", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("find the terminal: %v", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatalf("size the terminal: %v", err)
	}
	out := &terminal{}
	if out.program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(out, screen) })
	t.Cleanup(func() {
		_ = out.program.Close()
		reading.Wait()
		_ = screen.Close()
	})
	return out
}

// Write implements io.Writer, for what the terminal shows.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// testTerminal follows a feature at a terminal: one line is drawn over again and again.
func testTerminal(t *testing.T, p *plugin) {
	p.namespace(t, "terminal", map[string]v1alpha1.FeatureStatus{"Foo": {State: v1alpha1.StateOff, Dynamic: true}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	screen := newTerminal(t, 72)
	command := p.command(ctx, "enable", "Foo", "-n", "terminal", "--wait")
	command.Stdin, command.Stdout, command.Stderr = screen.program, screen.program, screen.program
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	task := func(done int64, message string) func(*v1alpha1.FeatureStatus) {
		return func(s *v1alpha1.FeatureStatus) {
			s.State = v1alpha1.StateTurningOn
			s.Tasks = []v1alpha1.Task{{Name: "Prepare", State: v1alpha1.TaskRunning, Done: done, Total: ptr.To[int64](4), Message: message}}
		}
	}
	want := ""
	for _, step := range []struct {
		shown string
		next  func(*v1alpha1.FeatureStatus)
	}{
		// The terminal has 72 columns, of which the last stays free.
		{"feature.features.k8s.io/Foo is to be Enabled\r\n\rFoo Off, the wish has not been seen by the feature's server yet\x1b[K", task(1, "")},
		{"\rFoo TurningOn: Prepare [#####---------------] 25% 1/4\x1b[K", task(3, "a message that goes beyond")},
		{"\rFoo TurningOn: Prepare [###############-----] 75% 3/4, a message that g\x1b[K", func(s *v1alpha1.FeatureStatus) { s.State, s.Tasks = v1alpha1.StateOn, nil }},
		{"\rFoo On\x1b[K\r\n", nil},
	} {
		want += step.shown
		framework.Eventually(t, patience, func() error { return poll.Want(screen.String() == want, fmt.Sprintf("%q, want %q", screen, want)) })
		if step.next != nil {
			p.status(t, "terminal", "Foo", step.next)
		}
	}
	if err := command.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}
