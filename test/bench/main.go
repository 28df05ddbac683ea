// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench compares ClusterClaim, as Annex serves it directly and through kube-apiserver's aggregator, with the same schema
// as a CRD and with ConfigMap on the same real kube-apiserver. All peers take the same load in one run, in turns, on etcds with
// the same settings. It prints a Markdown table of rates, latencies and the ratios to the CRD, and writes JSON.
//
//	make bench
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// settings are the size of a run.
type settings struct {
	rounds, clients, writes, reads, stored, lists, watchers, changes int
}

func main() {
	s := settings{}
	flag.IntVar(&s.rounds, "rounds", 5, "rounds; the table shows medians")
	flag.IntVar(&s.clients, "clients", 16, "concurrent clients of single-object requests")
	flag.IntVar(&s.writes, "writes", 800, "creates, patches, applies and deletes in a round")
	flag.IntVar(&s.reads, "reads", 2000, "gets in a round")
	flag.IntVar(&s.stored, "stored", 5000, "objects that are listed")
	flag.IntVar(&s.lists, "lists", 3, "lists in a round")
	flag.IntVar(&s.watchers, "watchers", 20, "concurrent watchers")
	flag.IntVar(&s.changes, "changes", 100, "changes seen by every watcher in a round")
	root := flag.String("root", ".", "the repository")
	out := flag.String("o", "", "file for the results as JSON")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s, *root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, root, out string) error {
	servers, err := startServers(ctx, root)
	if err != nil {
		return err
	}
	defer servers.stop()
	targets, err := servers.targets(ctx)
	if err != nil {
		return err
	}
	results := newResults(s, targets)
	for i, target := range targets {
		// Both ways to a ClusterClaim share what is stored.
		if i > 0 && target.path == targets[i-1].path {
			continue
		}
		if err := preload(ctx, target, s); err != nil {
			return fmt.Errorf("preloading %s: %w", target.name, err)
		}
	}
	for round := range s.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, s.rounds)
		for _, work := range works {
			for i := range targets {
				// Peers take turns at going first.
				target := targets[(i+round)%len(targets)]
				if work.protobuf && !target.protobuf {
					continue
				}
				measured, err := work.run(ctx, target, s)
				if err != nil {
					return fmt.Errorf("%s of %s: %w", work.name, target.name, err)
				}
				results.add(work.name, target.name, measured)
			}
		}
	}
	if err := results.print(os.Stdout); err != nil {
		return err
	}
	if out == "" {
		return nil
	}
	return results.write(out)
}
