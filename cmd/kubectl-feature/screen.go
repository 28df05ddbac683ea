// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/cmd/internal/terminal"
)

// screen shows progress: on a terminal in one line that is drawn again, elsewhere as a line a change.
type screen struct {
	to io.Writer
	// width returns the columns of the terminal. It is nil elsewhere.
	width func() int
	last  string
}

func newScreen(to io.Writer) *screen {
	s := &screen{to: to}
	if file, ok := terminal.Unwrap(to).(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		s.to = file
		s.width = func() int {
			width, _, err := term.GetSize(int(file.Fd()))
			if err != nil {
				return 80
			}
			return width
		}
	}
	return s
}

func (s *screen) show(f *v1alpha1.Feature) {
	line := terminal.Text(progressOf(f))
	if line == s.last {
		return
	}
	s.last = line
	if s.width == nil {
		_, _ = fmt.Fprintln(s.to, line)
		return
	}
	// A line that wraps could not be drawn over.
	if runes, room := []rune(line), max(s.width()-1, 1); len(runes) > room {
		line = string(runes[:room])
	}
	_, _ = fmt.Fprintf(s.to, "\r%s\x1b[K", line)
}

// end leaves the last line standing.
func (s *screen) end() {
	if s.width != nil && s.last != "" {
		_, _ = fmt.Fprintln(s.to)
	}
}
