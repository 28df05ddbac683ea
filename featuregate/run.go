// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	featuresclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/features/v1alpha1"
)

// Client reaches the Features of the cluster. A program that has a client can use that, as Client{Features: annex.FeaturesV1alpha1()}.
type Client struct {
	Features featuresclient.FeaturesV1alpha1Interface
}

// NewClient makes the client. It reaches for nothing.
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
	return Client{Features: features}, nil
}

// Run reports what is used, and has gates follow the API, until the context ends; then it reports its end and returns. Trouble
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
	if client.Features == nil {
		return errors.New("featuregate: RunWith needs a client of Features")
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
	reporter.stop(ctx)
	return nil
}
