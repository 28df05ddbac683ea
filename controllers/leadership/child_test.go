// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/controllers/leadership"
)

// Flags of the test binary when it runs as a child of a test.
var (
	childRole       = flag.String("annex.child", "", "for the tests themselves: what to do as a child process")
	childKubeconfig = flag.String("annex.kubeconfig", "", "for the tests themselves: the server of a child process")
	childServer     = flag.String("annex.server", "", "for the tests themselves: a proxy to go through")
	childLease      = flag.String("annex.lease", "", "for the tests themselves: the Lease of a child process")
	childExits      = flag.Bool("annex.exit-on-loss", false, "for the tests themselves: the gate is off")
)

// childTimings leave a process that a busy machine holds up for seconds its Lease.
var childTimings = leadership.Timings{LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: time.Second, StopTimeout: time.Minute}

// say is how a child tells its parent.
func say(words ...any) { _, _ = fmt.Fprintln(os.Stdout, words...) }

// runChild is the main function of a child process.
func runChild() error {
	config := &rest.Config{Host: *childServer}
	if *childServer == "" {
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", *childKubeconfig); err != nil {
			return err
		}
	}
	config.QPS = -1
	switch *childRole {
	case "lead":
		return leadAsChild(config)
	case "cycle":
		return cycleAsChild(config)
	}
	return fmt.Errorf("no such role: %s", *childRole)
}

// leadAsChild leads, and writes a ConfigMap all the time, until the process is ended.
func leadAsChild(config *rest.Config) error {
	o := leadership.NewOptions()
	o.Client, o.Timings, o.Host, o.ExitOnLoss = config, childTimings, "child", *childExits
	c, err := leadership.New(o, leadership.Group{
		Name: "child", Lease: types.NamespacedName{Namespace: "default", Name: *childLease},
		New: func(term *leadership.Term) ([]leadership.Runnable, error) {
			writer, err := kubernetes.NewForConfig(term.Client())
			if err != nil {
				return nil, err
			}
			return []leadership.Runnable{{Name: "writer", Run: func(ctx context.Context) error {
				say("start", term.Fence().Holder)
				defer say("stop", term.Fence().Holder)
				for late := 0; ctx.Err() == nil || late < 3; {
					if ctx.Err() != nil {
						late++ // as a runnable does that does not look at its context at once
					}
					_, err := writer.CoreV1().ConfigMaps("default").Create(context.Background(), &corev1.ConfigMap{
						ObjectMeta: metav1.ObjectMeta{GenerateName: *childLease + "-"}, Data: map[string]string{"holder": term.Fence().Holder},
					}, metav1.CreateOptions{})
					if err != nil {
						say("refused", term.Fence().Holder, err)
					}
					timer := time.NewTimer(10 * time.Millisecond)
					<-timer.C
				}
				return nil
			}}}, nil
		},
	})
	if err != nil {
		return err
	}
	return c.Run(context.Background())
}

// child is this test binary as a process of its own.
type child struct {
	t       *testing.T
	command *exec.Cmd
	done    chan struct{}
	err     error
	mu      sync.Mutex
	lines   []string
}

func startChild(t *testing.T, role string, args ...string) *child {
	t.Helper()
	c := &child{t: t, done: make(chan struct{})}
	c.command = exec.Command(os.Args[0], append([]string{"-annex.child", role, "-annex.kubeconfig", kubeconfig}, args...)...)
	out, err := c.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.command.Stderr = c.command.Stdout
	c.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			c.mu.Lock()
			c.lines = append(c.lines, scanner.Text())
			c.mu.Unlock()
		}
		c.err = c.command.Wait()
	}()
	t.Cleanup(func() {
		c.signal(syscall.SIGKILL)
		<-c.done
		if t.Failed() {
			t.Logf("the child said:\n%s", strings.Join(c.said(""), "\n"))
		}
	})
	return c
}

func (c *child) signal(signal syscall.Signal) {
	c.t.Helper()
	if err := c.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Error(err)
	}
}

// said returns the lines so far that begin with the text.
func (c *child) said(prefix string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, line := range c.lines {
		if strings.HasPrefix(line, prefix) {
			out = append(out, line)
		}
	}
	return out
}

func (c *child) await(prefix string, n int) string {
	c.t.Helper()
	eventually(c.t, soon, fmt.Sprintf("the child says %q %d times", prefix, n), func() (bool, any) {
		return len(c.said(prefix)) >= n, c.said("")
	})
	return c.said(prefix)[n-1]
}

func TestTheGateDecidesWhetherALostLeaseEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ exits bool }{"on": {}, "off": {exits: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			f, server := newProxy(t)
			c := startChild(t, "lead", "-annex.server", server.URL, "-annex.lease", s.lease.Name, fmt.Sprintf("-annex.exit-on-loss=%t", tc.exits))
			c.await("start", 1)
			pid := c.command.Process.Pid
			f.set(always(fault{cut: true}))
			if tc.exits {
				select {
				case <-c.done:
				case <-time.After(soon):
					t.Fatal("the process goes on")
				}
				var exit *exec.ExitError
				if !errors.As(c.err, &exit) || exit.ExitCode() != 1 {
					t.Errorf("the process ended with %v, want exit code 1", c.err)
				}
				return
			}
			c.await("stop", 1)
			f.set(nil)
			c.await("start", 2)
			if err := syscall.Kill(pid, 0); err != nil {
				t.Errorf("the process %d has ended: %v", pid, err)
			}
		})
	}
}

// rival starts an elector for which the Lease expires when the test calls expire.
func (s *stage) rival() (b *candidate, expire func()) {
	s.t.Helper()
	var elapsed atomic.Int64
	b = s.candidate("b", func(p *plan) {
		p.options.Clock.Elapsed = func() time.Duration { return time.Duration(elapsed.Load()) }
	})
	return b, func() {
		s.t.Helper()
		eventually(s.t, soon, "b knows the holder", func() (bool, any) {
			status := b.Statuses()[0]
			return status.Holder != "", status
		})
		elapsed.Store(int64(childTimings.LeaseDuration - time.Millisecond))
		b.role(leadership.Follower)
		if len(s.all("build", "b")) > 0 {
			s.t.Error("b has taken the Lease before it expired")
		}
		// The time goes on, since b may learn late of a renewal.
		eventually(s.t, soon, "b leads", func() (bool, any) {
			elapsed.Add(int64(time.Second))
			return len(s.all("start", "b")) > 0, b.Statuses()
		})
	}
}

func TestAKilledLeaderIsReplacedWhenItsLeaseExpires(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := startChild(t, "lead", "-annex.lease", s.lease.Name)
	c.await("start", 1)
	_, expire := s.rival()
	s.renewals(1)
	c.signal(syscall.SIGKILL)
	expire()
}

func TestAPausedLeaderWritesNothingWhenItWakesUp(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := startChild(t, "lead", "-annex.lease", s.lease.Name)
	first := strings.Fields(c.await("start", 1))[1]
	c.signal(syscall.SIGSTOP)
	b, expire := s.rival()
	expire()
	names := func() (out []string) {
		list, err := s.client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			if strings.HasPrefix(item.Name, s.lease.Name) {
				out = append(out, item.Name)
			}
		}
		return out
	}
	before := len(names())
	if before == 0 {
		t.Fatal("the child has written nothing")
	}
	c.signal(syscall.SIGCONT)
	c.await("stop "+first, 1)
	wantIn(t, "the refusal", strings.Join(c.said("refused "+first), "\n"), "term")
	if after := len(names()); after != before {
		t.Errorf("%d writes came late", after-before)
	}
	b.stop()
	c.await("start", 2) // in the same process
}
