// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-annex/annex/test/robustness/singlewriter"
)

const rowKilled = "SIGKILL at 3 s/2 s/0.5 s to the successor's runners started, ms"

// bootTime is the clock of what workers print.
func bootTime() (int64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return now.Nano(), err
}

// newWorker returns a process with idle runners that has not been started.
func newWorker(s settings, at server, name, namespace string, groups int, args ...string) (*singlewriter.Worker, error) {
	dir := filepath.Join(s.dir, namespace+"-"+strings.Map(alphanumeric, at.name))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	args = append([]string{"-kubeconfig", at.kubeconfig, "-namespace", namespace, "-groups", fmt.Sprint(groups), "-idle"}, args...)
	return singlewriter.NewWorker(name, s.worker, dir, args...), nil
}

func alphanumeric(r rune) rune {
	if r < 'A' || r > 'z' {
		return -1
	}
	return r
}

// led returns the groups whose runners run in the worker, with when they started.
func led(w *singlewriter.Worker) (map[string]int64, error) {
	intervals, _, err := w.Report()
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, interval := range intervals {
		if interval.To == math.MaxInt64 {
			out[interval.Group] = interval.From
		}
	}
	return out, nil
}

// until waits until the workers lead so many groups each, and returns them.
func until(ctx context.Context, limit time.Duration, holds func(counts []int) bool, workers ...*singlewriter.Worker) ([]map[string]int64, error) {
	var all []map[string]int64
	var counts []int
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		all, counts = nil, nil
		for _, w := range workers {
			groups, err := led(w)
			if err != nil {
				return false, err
			}
			if ended, _ := w.Ended(); ended {
				groups = nil
			}
			all, counts = append(all, groups), append(counts, len(groups))
		}
		return holds(counts), nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for groups to be led; it stayed at %v a process: %w", counts, err)
	}
	return all, nil
}

// failOver kills the leader of some groups again and again.
func failOver(ctx context.Context, s settings, at server, results *table) error {
	progress("%d kills at %s", s.kills, at.name)
	timings := []string{"-lease-duration=3s", "-renew-deadline=2s", "-retry-period=500ms"}
	leader, err := newWorker(s, at, "a", "default", s.groups, timings...)
	if err != nil {
		return err
	}
	follower, err := newWorker(s, at, "b", "default", s.groups, timings...)
	if err != nil {
		return err
	}
	all := func(counts []int) bool { return counts[0] == s.groups }
	if err := leader.Start(); err != nil {
		return err
	}
	defer leader.Kill()
	if _, err := until(ctx, time.Minute, all, leader); err != nil {
		return err
	}
	if err := follower.Start(); err != nil {
		return err
	}
	defer follower.Kill()
	for range s.kills {
		// Renewals go out every second; a kill comes at any time in between.
		if err := pause(ctx, time.Second+rand.N(time.Second)); err != nil {
			return err
		}
		killed, err := bootTime()
		if err != nil {
			return err
		}
		leader.Kill()
		took, err := until(ctx, time.Minute, all, follower)
		if err != nil {
			return err
		}
		for _, started := range took[0] {
			results.add(rowKilled, at, time.Duration(started-killed))
		}
		if err := leader.Start(); err != nil {
			return err
		}
		leader, follower = follower, leader
	}
	return nil
}
