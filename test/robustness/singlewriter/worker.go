// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package singlewriter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// failStopped is how a worker exits when its runners do not return in time.
const failStopped = 1

// Worker is one process after the other, all with the same flags.
type Worker struct {
	Name string
	// binary and args are what is run; dir is for output.
	binary string
	args   []string
	dir    string

	mu    sync.Mutex
	lives []*life
}

// life is one process.
type life struct {
	command  *exec.Cmd
	commands io.WriteCloser
	// output is where the events are, log the rest.
	output, log string
	done        chan struct{}
	err         error
	died        int64
}

// NewWorker returns a worker that does not run yet. Its output goes to files in dir.
func NewWorker(name, binary, dir string, args ...string) *Worker {
	return &Worker{Name: name, binary: binary, dir: dir, args: append(slices.Clone(args), "-host", name)}
}

// Start starts a process.
func (w *Worker) Start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	base := filepath.Join(w.dir, fmt.Sprintf("%s-%d", w.Name, len(w.lives)))
	l := &life{command: exec.Command(w.binary, w.args...), output: base + ".events", log: base + ".log", done: make(chan struct{}), died: math.MaxInt64}
	output, err := os.OpenFile(l.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	log, err := os.OpenFile(l.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	l.command.Stdout, l.command.Stderr = output, log
	if l.commands, err = l.command.StdinPipe(); err != nil {
		return err
	}
	if err := l.command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", w.Name, err)
	}
	go func() {
		defer close(l.done)
		l.err = l.command.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		l.died = bootTime()
	}()
	w.lives = append(w.lives, l)
	return nil
}

func (w *Worker) life() *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lives[len(w.lives)-1]
}

// Tell gives the process an order. One that has ended does not mind.
func (w *Worker) Tell(order string) { _, _ = io.WriteString(w.life().commands, order+"\n") }

// Signal sends a signal to the process, unless it has ended.
func (w *Worker) Signal(signal os.Signal) { _ = w.life().command.Process.Signal(signal) }

// Pid is the process's.
func (w *Worker) Pid() int { return w.life().command.Process.Pid }

// Kill ends the process with SIGKILL and waits.
func (w *Worker) Kill() {
	l := w.life()
	_ = l.command.Process.Kill()
	<-l.done
}

// Stop ends the process as a user does, and waits. The error says that it did not end well.
func (w *Worker) Stop(limit time.Duration) error {
	l := w.life()
	w.Signal(syscall.SIGTERM)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.done:
		return l.verdict()
	case <-timer.C:
		w.Signal(syscall.SIGQUIT) // for its stacks
		wait(context.Background(), time.Second)
		w.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM; the end of its log:\n%s", w.Name, limit, tail(l.log))
	}
}

// Ended tells whether the process has ended by itself, and whether it may: it does when runners do not return.
func (w *Worker) Ended() (bool, error) {
	l := w.life()
	select {
	case <-l.done:
		return true, l.verdict()
	default:
		return false, nil
	}
}

// verdict is nil for processes that have ended as they should: when told to, killed, or because their runners did not return.
func (l *life) verdict() error {
	var exit *exec.ExitError
	if !errors.As(l.err, &exit) || exit.ExitCode() == failStopped || !exit.Exited() {
		return nil
	}
	return fmt.Errorf("%w; the end of its log:\n%s", l.err, tail(l.log))
}

// FailStopped counts the processes that have ended because their runners did not return in time.
func (w *Worker) FailStopped() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, l := range w.lives {
		select {
		case <-l.done:
			if l.command.ProcessState.ExitCode() == failStopped {
				n++
			}
		default:
		}
	}
	return n
}

// Report returns the intervals of all processes so far, and how many writes they were refused.
func (w *Worker) Report() (intervals []Interval, refused int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lives {
		content, err := os.ReadFile(l.output)
		if err != nil {
			return nil, 0, err
		}
		events, err := Events(content)
		if err != nil {
			return nil, 0, fmt.Errorf("output of %s: %w", w.Name, err)
		}
		intervals = append(intervals, Intervals(events, l.died)...)
		for _, e := range events {
			if e.Event == "refused" {
				refused++
			}
		}
	}
	return intervals, refused, nil
}

// Heap asks the process what is on its heap after a garbage collection.
func (w *Worker) Heap(ctx context.Context) (bytes uint64, err error) {
	l := w.life()
	w.Tell("heap group-0")
	for {
		content, err := os.ReadFile(l.output)
		if err != nil {
			return 0, err
		}
		events, err := Events(content)
		if err != nil {
			return 0, err
		}
		if n := len(events); n > 0 && events[n-1].Event == "heap" {
			return events[n-1].Bytes, nil
		}
		if !wait(ctx, 10*time.Millisecond) {
			return 0, ctx.Err()
		}
	}
}

// tail is the end of a file.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
