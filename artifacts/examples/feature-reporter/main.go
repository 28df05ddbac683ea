// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command feature-reporter is a program with feature gates that tells the cluster which of them it uses. It greets once a second, as
// its gates say: --feature-gates=PoliteGreeting=false has it greet in another way, and LoudGreeting is read from the API. It finds
// its cluster by $KUBECONFIG, or ~/.kube/config.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/tools/clientcmd"
	basegate "k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/featuregate"
)

const (
	politeGreeting basegate.Feature = "PoliteGreeting"
	loudGreeting   basegate.Feature = "LoudGreeting"
	longGreeting   basegate.Feature = "LongGreeting"
)

var features = map[basegate.Feature]basegate.VersionedSpecs{
	politeGreeting: {{Version: version.MustParse("1.0"), PreRelease: basegate.Beta, Default: true}},
	loudGreeting:   {{Version: version.MustParse("1.0"), PreRelease: basegate.Alpha}},
	// Nobody asks for this one, so it is not reported.
	longGreeting: {{Version: version.MustParse("1.0"), PreRelease: basegate.Alpha}},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "feature-reporter:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("feature-reporter", pflag.ContinueOnError)
	options := featuregate.Options{Component: "feature-reporter", Version: "v1.0.0"}
	flags.StringVar(&options.Namespace, "namespace", "default", "The namespace of the features of this program.")
	flags.StringVar(&options.Instance, "instance", host, "What tells this process from others of the program.")
	base := basegate.NewVersionedFeatureGate(version.MustParse("1.0"))
	if err = base.AddVersioned(features); err != nil {
		return err
	}
	base.AddFlag(flags)
	if err = flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}

	// Here the program changes: these are the gates from now on ...
	gates, err := featuregate.New(base, options, featuregate.FromAPI(loudGreeting))
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	defer work.Wait()
	// ... and this reports their uses. An error would mean that config is none.
	work.Go(func() { _ = gates.Run(ctx, config) })

	return greet(ctx, gates, out)
}

// greet is the program as it was: it knows gates, and nothing of who they report to.
func greet(ctx context.Context, gates basegate.FeatureGate, out io.Writer) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		greeting := "hello"
		if gates.Enabled(politeGreeting) {
			greeting = "good day"
		}
		if gates.Enabled(loudGreeting) {
			greeting += "!"
		}
		if _, err := fmt.Fprintln(out, greeting); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
