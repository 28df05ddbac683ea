// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command server is `annex up` in a hurry: what its replicas wait for takes fractions of seconds. All else is as it is shipped.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/server/standalone"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run takes the command line of annex, which begins with "up".
func run(ctx context.Context, args []string) error {
	o := standalone.NewOptions()
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	var sections cliflag.NamedFlagSets
	o.AddFlags(&sections)
	for _, section := range sections.FlagSets {
		flags.AddFlagSet(section)
	}
	if err := flags.Parse(args[min(1, len(args)):]); err != nil {
		return err
	}
	o.Out = os.Stdout
	// Leases are long, for slow machines; a process that was killed takes its own up again.
	o.Extension.Lifecycle.Timings = lifecycle.Timings{
		LeaseDuration: 20 * time.Second, RenewInterval: 300 * time.Millisecond, RetryBase: 100 * time.Millisecond, RetryMax: time.Second,
		ProgressInterval: 50 * time.Millisecond, RecheckInterval: 2 * time.Second, Poll: 50 * time.Millisecond,
	}
	completed, err := o.Complete()
	if err != nil {
		return err
	}
	return standalone.New(completed).Run(ctx)
}
