// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/internal/listbeforewatch"
	"github.com/kube-annex/annex/server/featuregating/gates"
)

const (
	// Component announces Annex's own features.
	Component = "annex-apiserver"
	// ComponentOfOthers announces the features that --features sets.
	ComponentOfOthers = "annex-features"
)

// Config describes the server.
type Config struct {
	// Gates are Annex's own, as returned by NewReporter.
	Gates *featuregate.Gate
	// Gated lists what they gate, and Resources the resource of each gated kind.
	Gated     gates.Gated
	Resources map[schema.GroupVersionKind]schema.GroupVersionResource
	// Instance identifies this replica. It is the same after a restart.
	Instance string
	// Loopback reaches the server itself with all rights.
	Loopback *rest.Config
	// Host has the namespaces, and the Leases of replicas and reporters.
	Host kubernetes.Interface
}

// Engines move Features of one replica. There is one for each namespace.
type Engines struct {
	options Options
	config  Config
	client  versioned.Interface
	own     lifecycle.Options
	// others are of --features, by namespace.
	others []lifecycle.Options
}

// NewEngines returns the engines of a server, for valid options. They start nothing.
func NewEngines(options Options, config Config) (*Engines, error) {
	// Clients of the server itself are not told of each field that it drops; that is what they are for.
	quiet := rest.CopyConfig(config.Loopback)
	quiet.WarningHandler, quiet.WarningHandlerWithContext = nil, rest.NoWarnings{}
	quiet.QPS = -1
	quiet.Wrap(listbeforewatch.Transport)
	client, err := versioned.NewForConfig(quiet)
	if err != nil {
		return nil, fmt.Errorf("make a client of the server's Features: %w", err)
	}
	objects, err := dynamic.NewForConfig(quiet)
	if err != nil {
		return nil, fmt.Errorf("make a client of what features gate: %w", err)
	}
	wanted, errs := options.read(config.Gates)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	tools := Tools{Objects: objects, AllowDataLoss: options.AllowDataLoss}
	if qps := options.TaskQPS; qps > 0 {
		// What was not used for a tenth of a second is lost, so that users never wait for a burst.
		tools.Limiter = flowcontrol.NewTokenBucketRateLimiter(float32(qps), max(1, qps/10))
	}
	e := &Engines{options: options, config: config, client: client, own: engineOptions(options, config, client)}
	e.own.Component, e.own.Namespace = Component, gates.Namespace
	if e.own.Features, err = ownFeatures(config, &options, wanted.dynamic, tools); err != nil {
		return nil, err
	}
	// Mistakes are reported before the server starts.
	if _, err = lifecycle.New(e.own); err != nil {
		return nil, fmt.Errorf("set up the lifecycle of features: %w", err)
	}
	for _, namespace := range wanted.namespaces() {
		other := engineOptions(options, config, client)
		other.Component, other.Namespace = ComponentOfOthers, namespace
		other.Features = wanted.others(namespace)
		if _, err = lifecycle.New(other); err != nil {
			return nil, fmt.Errorf("set up the lifecycle of features in namespace %s: %w", namespace, err)
		}
		e.others = append(e.others, other)
	}
	return e, nil
}

func engineOptions(options Options, config Config, client versioned.Interface) lifecycle.Options {
	timings := options.Timings
	timings.AnswerWindow = options.AnswerWindow
	// No replica, whether it is partitioned or paused, writes by what it has seen of a Feature: each write of a gated field commits only
	// while the Feature is as it was read (registry/resource). So nobody has to be waited for besides the reporters.
	timings.WriteGrace = -1
	return lifecycle.Options{
		Instance: config.Instance, Version: gates.Version(), Client: client, Leases: config.Host.CoordinationV1(), LeaseNamespace: featuregate.LeaseNamespace,
		Retention: options.Retention, Timings: timings,
	}
}

// others returns the features of a namespace that is not Annex's.
func (w wanted) others(namespace string) []lifecycle.Feature {
	var out []lifecycle.Feature
	for n, on := range w.values {
		if n.namespace == namespace {
			out = append(out, lifecycle.Feature{
				Name: n.name, Default: v1alpha1.ValueDisabled, Configured: value(on), Source: v1alpha1.SourceCommandLine, Dynamic: w.dynamic[n],
			})
		}
	}
	return out
}

// Run works until the context ends and all tasks have returned, and gives the Leases back.
func (e *Engines) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		e.run(ctx, e.own, func(ctx context.Context) error {
			return e.config.Gates.RunWith(ctx, featuregate.Client{Features: e.client.FeaturesV1alpha1()})
		})
	})
	for _, other := range e.others {
		running.Go(func() { e.run(ctx, other) })
	}
	orphans := lifecycle.Orphans{Client: e.client, Leases: e.own.Leases, LeaseDuration: e.own.Timings.LeaseDuration}
	running.Go(func() { orphans.Run(ctx) })
}

// run runs the engine of one namespace, and what goes with it, once they can work.
func (e *Engines) run(ctx context.Context, options lifecycle.Options, beside ...func(context.Context) error) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "namespace", options.Namespace)
	if !e.wait(ctx, &options) {
		return
	}
	logger.V(2).Info("Takes features through their states", "features", len(options.Features))
	engine := func(ctx context.Context) error {
		made, err := lifecycle.New(options)
		if err != nil {
			return err
		}
		return made.Run(ctx)
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, work := range append(beside, engine) {
		running.Go(func() {
			if err := work(ctx); err != nil {
				logger.Error(err, "Features of this namespace stay as they are")
			}
		})
	}
}
