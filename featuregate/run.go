// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	featuresclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/features/v1alpha1"
)

// Client reaches the Features and the Leases of the cluster. A program that has clients can use these, as
// Client{Features: annex.FeaturesV1alpha1(), Leases: kubernetes.CoordinationV1()}.
type Client struct {
	Features featuresclient.FeaturesV1alpha1Interface
	Leases   coordinationclient.LeasesGetter
}

// NewClient makes the clients. It reaches for nothing.
func NewClient(config *rest.Config) (Client, error) {
	if config == nil {
		return Client{}, errors.New("featuregate: there is no client configuration")
	}
	if config.AcceptContentTypes == "" && config.ContentType == "" {
		// Every process reads every change of a Feature, so it matters what that takes: above all at the server, which would compress
		// each of these small answers anew.
		config = rest.CopyConfig(config)
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		config.DisableCompression = true
	}
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return Client{}, fmt.Errorf("make a client that reports features: %w", err)
	}
	features, err := featuresclient.NewForConfigAndClient(config, http)
	if err != nil {
		return Client{}, fmt.Errorf("make a client that reports features: %w", err)
	}
	leases, err := coordinationclient.NewForConfigAndClient(config, http)
	if err != nil {
		return Client{}, fmt.Errorf("make a client that reports features: %w", err)
	}
	return Client{Features: features, Leases: leases}, nil
}

// Run reports what is used, and has gates follow the API, until the context ends; then it deletes its Lease and returns. Trouble
// with the API is no reason to return: an error means that there is nothing to begin with.
func (g *Gate) Run(ctx context.Context, config *rest.Config) error {
	client, err := NewClient(config)
	if err != nil {
		return err
	}
	return g.RunWith(ctx, client)
}

// RunWith is Run for a program that has clients of its own.
func (g *Gate) RunWith(ctx context.Context, client Client) error {
	if client.Features == nil || client.Leases == nil {
		return errors.New("featuregate: RunWith needs clients of both Features and Leases")
	}
	if !g.running.CompareAndSwap(false, true) {
		return errors.New("featuregate: the gate reports already; call Run once")
	}
	defer g.running.Store(false)
	logger := klog.FromContext(ctx).WithName("featuregate")
	known := newView(g, logger)
	var work sync.WaitGroup
	work.Go(func() { known.follow(ctx, client.Features.Features(g.options.Namespace)) })
	work.Go(func() { known.tellProgram(ctx) })
	reporter := newReporter(g, known, client, logger)
	reporter.run(ctx)
	work.Wait()
	reporter.lease.letGo(ctx)
	return nil
}
