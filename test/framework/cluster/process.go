// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kube-annex/annex/test/framework/poll"
)

// stopTimeout is how long a process has to stop by itself.
const stopTimeout = time.Minute

// Process is a child process. It ends with this one at the latest.
type Process struct {
	Name    string
	command *exec.Cmd
	logFile string
	done    chan struct{}
	err     error
}

// StartProcess runs a program, whose output is appended to logFile and whose temporary files are beside it.
func StartProcess(name, logFile, binary string, args ...string) (*Process, error) {
	output, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = output.Close() }()
	p := &Process{Name: name, command: exec.Command(binary, args...), logFile: logFile, done: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = output, output
	// What programs leave behind is removed with their log.
	p.command.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(logFile))
	p.command.SysProcAttr = endWithParent()
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.command.Wait()
	}()
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Await waits until check returns nil. It ends early with the process, and its error has the end of the log.
func (p *Process) Await(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	err := poll.Until(ctx, limit, func(ctx context.Context) error {
		select {
		case <-p.done:
			return poll.Permanent(fmt.Errorf("%s ended: %w", p.Name, p.err))
		default:
			return check(ctx)
		}
	})
	if err != nil {
		return fmt.Errorf("%w; the end of the log of %s:\n%s", err, p.Name, p.Tail(tailLines))
	}
	return nil
}

// AwaitLog waits until the log contains a text.
func (p *Process) AwaitLog(ctx context.Context, limit time.Duration, text string) error {
	return p.Await(ctx, limit, func(context.Context) error {
		return poll.Want(strings.Contains(p.Log(), text), fmt.Sprintf("no %q in the log", text))
	})
}

// Pid is the process's number.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Stop ends the process as a service manager does, unless it has ended, and waits. It returns how the process ended.
func (p *Process) Stop() error {
	select {
	case <-p.done:
		return nil
	default:
		return p.end(syscall.SIGTERM)
	}
}

// Interrupt ends a running process as Ctrl-C does, waits, and returns how it ended.
func (p *Process) Interrupt() error {
	select {
	case <-p.done:
		return errors.Join(errors.New(p.Name+" had ended before"), p.err)
	default:
		return p.end(os.Interrupt)
	}
}

func (p *Process) end(signal os.Signal) error {
	if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("%s ended with: %w; the end of its log:\n%s", p.Name, p.err, p.Tail(tailLines))
		}
		return nil
	case <-time.After(stopTimeout):
		p.Kill()
		return fmt.Errorf("%s did not end within %s of signal %v; the end of its log:\n%s", p.Name, stopTimeout, signal, p.Tail(tailLines))
	}
}

// Signal sends the process a signal, such as the one that halts it.
func (p *Process) Signal(signal os.Signal) error {
	if err := p.command.Process.Signal(signal); err != nil {
		return fmt.Errorf("send %s %v: %w", p.Name, signal, err)
	}
	return nil
}

// Kill ends the process at once and waits.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.done
}

// Log is what the process has written.
func (p *Process) Log() string {
	content, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// Tail is the end of the log.
func (p *Process) Tail(lines int) string {
	all := bytes.Split([]byte(strings.TrimSuffix(p.Log(), "\n")), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// FreePort returns a loopback port at which nothing listens.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
