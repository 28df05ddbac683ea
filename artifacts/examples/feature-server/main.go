// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command feature-server is a server of a third party that has a feature of its own, Frobbing: users may store Frobs, and the server
// frobs them. It runs against any cluster that has Annex, and a namespace for it:
//
//	kubectl create namespace frob-system
//	feature-server --dynamic-features=Frobbing &
//	kubectl feature enable -n frob-system Frobbing --wait
//	kubectl apply -f - <<<'{"apiVersion":"example.org/v1","kind":"Frob","metadata":{"name":"one"},"spec":{"size":3}}'
//
// lifecycle.Engine takes the feature On and Off, with the tasks in feature.go. featuregate has the server follow: with FromAPI its gate
// is enabled exactly while use is permitted. Any number of replicas may run, each with its own --instance.
//
// # Who keeps users from using it
//
// The server stores nothing by itself, and nobody asks it when a Frob is written. While the feature is Off there are no Frobs in the
// API, since the CRD is not installed. TurningOn installs it, and waits until the API serves it, before use is permitted. While the
// feature is TurningOff the CRD takes no new Frobs; when users have removed theirs it goes. No Frob is deleted by the server.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	basegate "k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/generated/clientset/versioned"
)

const frobbing basegate.Feature = "Frobbing"

var features = map[basegate.Feature]basegate.VersionedSpecs{
	frobbing: {{Version: version.MustParse("1.0"), PreRelease: basegate.Alpha}},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "feature-server:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	base := basegate.NewVersionedFeatureGate(version.MustParse("1.0"))
	if err = base.AddVersioned(features); err != nil {
		return err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	who := featuregate.Options{Component: "feature-server", Version: "v1.0.0"}
	var dynamicFeatures []string
	var timings lifecycle.Timings
	var grace time.Duration
	flags := pflag.NewFlagSet("feature-server", pflag.ContinueOnError)
	flags.StringVar(&rules.ExplicitPath, "kubeconfig", "", "File that says where the cluster is; by default $KUBECONFIG, or ~/.kube/config.")
	flags.StringVar(&who.Namespace, "namespace", "frob-system", "The namespace of the features of this server.")
	flags.StringVar(&who.Instance, "instance", host, "What tells this replica from others; after a restart it is the same.")
	flags.StringSliceVar(&dynamicFeatures, "dynamic-features", nil, "Features that API clients may turn on and off by spec.desired.")
	flags.DurationVar(&timings.AnswerWindow, "answer-window", time.Minute, "How long programs have at least to say whether they use a feature.")
	flags.DurationVar(&timings.RenewInterval, "renew-interval", 10*time.Second, "How often a replica says that it lives; for three times as long it counts as alive.")
	flags.DurationVar(&grace, "grace", 10*time.Second, "How long the API servers of the cluster may take to see that a CRD has changed.")
	base.AddFlag(flags)
	if err = flags.Parse(args); err != nil {
		return err
	}
	timings.LeaseDuration = 3 * timings.RenewInterval
	// The default, 70 s, is for servers that decide with each write whether it uses a feature, by what they have seen of it last. This
	// one decides nothing, and what it does itself has ended before its gate answers.
	timings.WriteGrace = -1

	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return err
	}
	annex, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	leases, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	extensions, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}

	// What the server does follows the Features ...
	frobber := &frobber{frobs: objects.Resource(frobs)}
	gates, err := featuregate.New(base, who, featuregate.FromAPI(frobbing, frobber.changed))
	if err != nil {
		return err
	}
	frobber.gates = gates
	// ... which the engine moves by what the flags say, or spec.desired.
	engine, err := lifecycle.New(lifecycle.Options{
		Component: who.Component, Instance: who.Instance, Version: who.Version, Namespace: who.Namespace, Timings: timings,
		Features: []lifecycle.Feature{feature(base, slices.Contains(dynamicFeatures, string(frobbing)), &crd{extensions.ApiextensionsV1().CustomResourceDefinitions(), grace}, frobber.frobs)},
		Client:   annex, Leases: leases,
	})
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { _ = gates.RunWith(ctx, featuregate.Client{Features: annex.FeaturesV1alpha1()}) })
	work.Go(func() { frobber.run(ctx) })
	return engine.Run(ctx)
}
