// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures what Annex costs beside other ways to store the same objects: an extension apiserver behind kube-apiserver
// and annex up, each asked directly and through its aggregator, against etcd alone, ConfigMaps and CRDs of kube-apiserver, and
// Kubernetes' sample servers. All peers take the same load in one run, in turns. It writes every round as JSON, and tables into README.md.
//
//	make bench
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// settings are the size of a run and what it is to do.
type settings struct {
	root, binary, only, which, out, readme, chart, profiles string

	rounds, clients, stored, own int
	// lasting is how long a work is done in a round, and warming before the first one.
	lasting, warming    time.Duration
	watchers, perSecond int
	watching            time.Duration
	short, contention   bool
}

func main() {
	s := settings{}
	flag.StringVar(&s.root, "root", ".", "the repository")
	flag.StringVar(&s.binary, "annex", "", "annex binary to measure, to compare versions of it; without it that of the repository is built")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds; the tables show medians")
	flag.IntVar(&s.clients, "clients", 16, "concurrent clients of requests for one object, each with a connection of its own")
	flag.IntVar(&s.stored, "stored", 10_000, "objects that each peer has from the beginning, and that are listed")
	flag.IntVar(&s.own, "own", 1000, "objects that are changed where no work has created any")
	flag.DurationVar(&s.lasting, "for", 800*time.Millisecond, "how long each work lasts in a round")
	flag.DurationVar(&s.warming, "warm", 250*time.Millisecond, "how long each work lasts before the first round, which does not count")
	flag.IntVar(&s.watchers, "watchers", 1000, "concurrent watchers, each with a connection of its own")
	flag.IntVar(&s.perSecond, "events", 10, "changes a second that every watcher sees")
	flag.DurationVar(&s.watching, "watch", 3*time.Second, "how long there are changes in a round, with and without one who never reads")
	flag.StringVar(&s.only, "only", "", "regular expression of the rows to measure; empty means all")
	flag.StringVar(&s.which, "peers", "", "regular expression of the peers to measure; empty means all")
	flag.BoolVar(&s.short, "short", false, "a short run that shows no more than that everything works")
	flag.StringVar(&s.out, "o", "", "file for the results as JSON")
	flag.StringVar(&s.readme, "readme", "", "Markdown file whose tables are written anew by a whole run; without it, and by a run of a part, they are printed")
	flag.StringVar(&s.chart, "chart", "", "SVG file for the chart of a whole run")
	flag.StringVar(&s.profiles, "profiles", "", "directory for profiles of our servers at each work, which are taken after the rounds")
	flag.BoolVar(&s.contention, "contention", false, "have annex note where goroutines wait, for -profiles; it costs so much that figures of such a run tell nothing")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// shorten makes a run as small as it can be.
func (s *settings) shorten() {
	s.rounds, s.clients, s.stored, s.own = 1, 4, 100, 20
	s.lasting, s.warming, s.watching = 50*time.Millisecond, 0, 300*time.Millisecond
	s.watchers = 5
}

func run(ctx context.Context, s settings) error {
	if s.short {
		s.shorten()
	}
	only, err := regexp.Compile(s.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	which, err := regexp.Compile(s.which)
	if err != nil {
		return fmt.Errorf("-peers: %w", err)
	}
	servers, err := newServers(ctx, s)
	if err != nil {
		return err
	}
	defer servers.stop()
	peers, err := servers.peers(ctx, which)
	if err != nil {
		return err
	}
	b := &bench{settings: s, only: only, servers: servers, peers: peers, results: newResults(s, peers)}
	if err := b.run(ctx); err != nil {
		return err
	}
	if err := b.publish(ctx); err != nil {
		return err
	}
	return b.profile(ctx)
}

// say tells whoever waits what is being done.
func say(format string, values ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", values...)
}
