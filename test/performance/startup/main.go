// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command startup measures how soon `annex up` is there and what it needs when it has nothing to do, beside Kubernetes' own sample of a
// control plane without containers and the etcd that it takes. Both are started anew in each round, in turns: first with nothing stored, and
// then with what the first start has left. It tells where time and memory of `annex up` go as well. It prints Markdown tables and writes JSON.
//
//	make bench-startup
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/performance/measure"
)

// settings are the size of a run and where things are.
type settings struct {
	root, annex, out, readme string
	rounds                   int
	// idle is how long a server is left alone, and the CPU is that of the last part of it.
	idle, last time.Duration
	// dir is for everything that is written, bin has the components of Kubernetes.
	dir, bin string
}

func main() {
	s := settings{}
	flag.StringVar(&s.root, "root", ".", "the repository")
	flag.StringVar(&s.annex, "annex", "", "the annex binary; empty means that it is built")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds; the tables show medians")
	flag.DurationVar(&s.idle, "idle", 30*time.Second, "how long a server is left alone before its memory counts")
	flag.DurationVar(&s.last, "cpu", 20*time.Second, "for which part of that, at its end, CPU counts")
	flag.StringVar(&s.out, "o", "", "file for the results as JSON")
	flag.StringVar(&s.readme, "readme", "", "Markdown file whose tables are written anew, between the markers of \"startup\"; without it they are printed")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	if s.idle < s.last {
		return errors.New("-cpu is longer than -idle; set it to less")
	}
	if s.dir, err = os.MkdirTemp("", "annex-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	if s.bin, err = cluster.Build(ctx, s.root, os.Stderr); err != nil {
		return err
	}
	if _, err = cluster.BuildSamples(ctx, s.root, os.Stderr); err != nil {
		return err
	}
	if s.annex == "" {
		if s.annex, err = framework.AnnexFor(s.root); err != nil {
			return err
		}
	}
	r := newResults()
	for round := range s.rounds {
		// They take turns at going first.
		order := []func() (server, error){s.newAnnex, s.newSample}
		for i := range order {
			progress("round %d of %d", round+1, s.rounds)
			if err = s.measure(ctx, order[(i+round)%len(order)], r); err != nil {
				return err
			}
		}
	}
	if r.Owners, err = s.owners(ctx); err != nil {
		return fmt.Errorf("find out where the memory goes: %w", err)
	}
	return s.report(r)
}

// measure starts a server twice on the same data, and leaves it alone the second time.
func (s settings) measure(ctx context.Context, create func() (server, error), r *results) error {
	next, err := create()
	if err != nil {
		return err
	}
	defer next.remove()
	for _, row := range []string{rowFirst, rowLater} {
		took, err := next.start(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", next.name(), err)
		}
		r.add(next.name(), row, took.Seconds())
		for phase, seconds := range next.phases() {
			r.add(next.name(), phase+of(row), seconds)
		}
		if row == rowLater {
			err = s.leaveAlone(ctx, next, r)
		}
		if err = errors.Join(err, next.stop()); err != nil {
			return fmt.Errorf("%s: %w", next.name(), err)
		}
	}
	return nil
}

// leaveAlone measures what a server needs that has nothing to do.
func (s settings) leaveAlone(ctx context.Context, running server, r *results) error {
	if err := pause(ctx, s.idle-s.last); err != nil {
		return err
	}
	before := map[string]float64{}
	for name, pid := range running.processes() {
		used, err := measure.CPU(pid)
		if err != nil {
			return err
		}
		before[name] = used
	}
	if err := pause(ctx, s.last); err != nil {
		return err
	}
	for name, pid := range running.processes() {
		after, err := measure.CPU(pid)
		if err != nil {
			return err
		}
		all, anonymous, err := measure.Resident(pid)
		if err != nil {
			return err
		}
		r.add(name, rowCPU, 100*(after-before[name])/s.last.Seconds())
		r.add(name, rowResident, all)
		r.add(name, rowAnonymous, anonymous)
		r.add(name, rowFile, all-anonymous)
	}
	metrics, err := running.metrics(ctx)
	if err != nil {
		return err
	}
	for row, names := range runtimeRows {
		value := 0.0
		for _, name := range names {
			value += metrics[name]
		}
		if row != rowGoroutines {
			value /= 1 << 20
		}
		r.add(running.name(), row, value)
	}
	return nil
}

func (s settings) report(r *results) error {
	if err := r.write(s.out); err != nil {
		return err
	}
	text := strings.Join(r.tables(), "\n")
	if s.readme != "" {
		return measure.Replace(s.readme, "startup", text)
	}
	fmt.Print(text)
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
