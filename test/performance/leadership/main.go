// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command leadership times what package controllers/leadership promises: hand-over, with client-go's LeaderElector in the same run,
// fail-over after SIGKILL, spreading of groups, and losing a Lease against exiting and being started again. It prints a Markdown table.
//
//	make bench-leadership
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

	"github.com/kube-annex/annex/test/framework/cluster"
)

// settings are the size of a run.
type settings struct {
	root                                string
	cycles, peerCycles, kills, restarts int
	groups, objects                     int
	only                                string
	// dir is for everything that is written, worker the program that is killed.
	dir, worker string
}

// measures are what is timed; some of it at one server only.
var measures = []struct {
	name       string
	everywhere bool
	run        func(context.Context, settings, server, *table) error
}{
	{"hand-over", true, handOver},
	{"client-go", true, peerHandOver},
	{"kill", true, failOver},
	{"restart", false, restart},
	{"spread", false, spread},
}

func main() {
	s := settings{}
	flag.StringVar(&s.root, "root", ".", "the repository")
	flag.IntVar(&s.cycles, "cycles", 1000, "graceful hand-overs")
	flag.IntVar(&s.peerCycles, "peer-cycles", 20, "graceful hand-overs of client-go's LeaderElector, some seconds each")
	flag.IntVar(&s.kills, "kills", 30, "processes that are killed")
	flag.IntVar(&s.groups, "groups", 5, "groups of each process that is killed")
	flag.IntVar(&s.restarts, "restarts", 50, "terms of a process that lives on, and of one that is started again")
	flag.IntVar(&s.objects, "objects", 1000, "ConfigMaps of 1 KB in the caches of the terms of which memory is measured")
	flag.StringVar(&s.only, "only", "", "one of hand-over, client-go, kill, restart and spread; empty means all")
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
	if s.dir, err = os.MkdirTemp("", "annex-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	s.worker = filepath.Join(s.dir, "worker")
	if err = build(ctx, s.root, s.worker, "./test/robustness/singlewriter/worker"); err != nil {
		return err
	}
	annex, err := startAnnex(ctx, s)
	if err != nil {
		return err
	}
	defer annex.stop()
	bin, err := cluster.Build(ctx, s.root, os.Stderr)
	if err != nil {
		return err
	}
	host, err := cluster.Start(ctx, cluster.Options{Dir: filepath.Join(s.dir, "host"), Bin: bin})
	if err != nil {
		return err
	}
	defer host.Stop()
	servers := []server{annex.server, {name: "kube-apiserver", config: host.Config, kubeconfig: host.Kubeconfig}}

	results := newTable(servers)
	for _, m := range measures {
		if s.only != "" && s.only != m.name {
			continue
		}
		for i, at := range servers {
			if i > 0 && !m.everywhere {
				break
			}
			if err := m.run(ctx, s, at, results); err != nil {
				return err
			}
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
func progress(format string, values ...any) { fmt.Fprintf(os.Stderr, format+"\n", values...) }
