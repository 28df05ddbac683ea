// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command features measures what the feature lifecycle promises at scale: 10,000 reporters and a question to all of them, clearing a
// gated field from 100,000 stored objects, also with a SIGKILL in between, and Enabled against the gate below. The server is
// `annex up` as a process of its own, whose etcd writes to disk as always; what is counted is counted in etcd's history. It prints
// Markdown tables.
//
//	make bench-features
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// settings are the size of a run.
type settings struct {
	root, only string
	reporters  int
	// starts is how many reporters are started a second.
	starts         float64
	settled, quiet time.Duration
	// window is how long a question is open at least; 0 is what the library has.
	window                  time.Duration
	questions               int
	objects, limited, kills int
	qps                     float64
	// dir is for everything that is written, binary the server.
	dir, binary string
}

// measures are what is measured.
var measures = []struct {
	name string
	run  func(context.Context, settings, *table) error
}{
	{"enabled", enabled},
	{"reporters", reporters},
	{"clearing", clearing},
}

func main() {
	s, role := settings{}, childRole{}
	flag.StringVar(&s.root, "root", ".", "the repository")
	flag.StringVar(&s.only, "only", "", "one of enabled, reporters and clearing; empty means all")
	flag.IntVar(&s.reporters, "reporters", 10_000, "processes that report, each a gate with a connection of its own")
	flag.Float64Var(&s.starts, "starts", 100, "how many of them start in a second")
	flag.DurationVar(&s.settled, "settled", 5*time.Minute, "how long they are left alone once all are there")
	flag.DurationVar(&s.quiet, "quiet", time.Minute, "time without question before each one, and after the last")
	flag.IntVar(&s.questions, "questions", 3, "questions to all reporters")
	flag.IntVar(&s.objects, "objects", 100_000, "stored objects, of which nine of ten have the field")
	flag.IntVar(&s.limited, "limited", 12_000, "objects of a clearing at the default limit, beside users")
	flag.Float64Var(&s.qps, "qps", 200, "that limit, in requests a second")
	flag.IntVar(&s.kills, "kills", 5, "kills of a process that clears")
	role.addFlags(flag.CommandLine)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := error(nil)
	if role.name != "" {
		err = role.run(ctx)
	} else {
		err = run(ctx, s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	if s.dir, err = os.MkdirTemp("", "annex-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	s.binary = filepath.Join(s.dir, "annex")
	if err = build(ctx, s.root, s.binary, "./cmd/annex"); err != nil {
		return err
	}
	results := &table{}
	for _, m := range measures {
		if s.only != "" && s.only != m.name {
			continue
		}
		if err := m.run(ctx, s, results); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return results.print(os.Stdout)
}

func build(ctx context.Context, root, output, target string) error {
	command := exec.CommandContext(ctx, "go", "build", "-o", output, target)
	command.Dir = root
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", target, err, strings.TrimSpace(string(text)))
	}
	return nil
}

// progress tells whoever waits what is being done.
func progress(format string, values ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", values...)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
