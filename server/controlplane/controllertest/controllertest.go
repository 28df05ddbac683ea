// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllertest runs controllers of a control plane outside of it, for tests that act between their requests. It is not a stable API.
package controllertest

import (
	"context"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/internal/listbeforewatch"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/garbagecollector"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/namespace"
)

// RunGarbageCollector runs the garbage collector until the test ends. Its informers list before they watch, as those of the control plane do.
func RunGarbageCollector(t testing.TB, config *rest.Config) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Wrap(listbeforewatch.Transport)
	controller, err := garbagecollector.New(config)
	if err != nil {
		t.Fatal(err)
	}
	run(t, controller.Run)
}

// RunNamespaceController runs the controller that empties deleted namespaces until the test ends. Its informer uses a configuration of its own.
func RunNamespaceController(t testing.TB, config, informer *rest.Config) {
	t.Helper()
	client, err := kubernetes.NewForConfig(informer)
	if err != nil {
		t.Fatal(err)
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	controller, err := namespace.New(config, shared.Core().V1().Namespaces(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shared.Shutdown)
	run(t, func(ctx context.Context) error {
		shared.Start(ctx.Done())
		shared.WaitForCacheSync(ctx.Done())
		return controller.Run(ctx)
	})
}

func run(t testing.TB, controller func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- controller(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
