// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/options"
)

const (
	// Name is the server's name in metrics, logs and its identity.
	Name = "annex-controlplane"
	// StoragePrefix is where the server's objects are in etcd, as in every Kubernetes cluster.
	StoragePrefix = "/registry"
)

// Server is one control plane. It can be run once.
type Server struct {
	options CompletedOptions
	backend *etcd.Backend
	ready   chan struct{}
	drained chan struct{}
}

// New returns a control plane that keeps its objects in the backend. It starts nothing.
func New(completed CompletedOptions, backend *etcd.Backend) *Server {
	return &Server{options: completed, backend: backend, ready: make(chan struct{}), drained: make(chan struct{})}
}

// Ready is closed when /readyz is green for the first time.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Drained is closed when a server that was told to stop has answered all requests under way. Run goes on for a second
// after that, in which clients learn that their connections end.
func (s *Server) Drained() <-chan struct{} { return s.drained }

// Run listens, serves, and returns when the context has ended, all requests under way have been answered, and all
// controllers have stopped. The backend has to outlive it.
func (s *Server) Run(ctx context.Context) error {
	listener, err := s.options.Serving.Listen(ctx)
	if err != nil {
		return err
	}
	onStop := func(f func()) func() bool { return context.AfterFunc(ctx, f) }
	chain, err := s.build(onStop, listener) //nolint:contextcheck // what the storage loads ends when the server has drained
	if err != nil {
		_ = listener.Close()
		return err
	}
	return s.serve(ctx, chain, listener)
}

func (s *Server) serve(ctx context.Context, chain *chain, listener net.Listener) error {
	defer chain.config.SharedInformerFactory.Shutdown()
	controllers, err := s.controllers(chain)
	if err == nil {
		err = s.addReadinessChecks(chain, controllers)
	}
	if err != nil {
		chain.destroy()
		_ = listener.Close()
		return err
	}
	prepared, err := chain.aggregator.PrepareRun()
	if err != nil {
		chain.destroy()
		_ = listener.Close()
		return fmt.Errorf("prepare the aggregator: %w", err)
	}

	// Controllers end as soon as the server is told to: what they would still do, the next start does.
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, run := range controllers.run {
		running.Go(func() { run(ctx) })
	}
	ended := make(chan struct{})
	defer close(ended)
	running.Go(func() {
		select {
		case <-chain.config.DrainedNotify():
			close(s.drained)
		case <-ended: // it never ran
		}
	})
	running.Go(func() {
		if err := options.WaitReady(ctx, chain.config.LoopbackClientConfig); err == nil {
			close(s.ready)
		}
	})
	if err := prepared.Run(ctx); err != nil {
		return fmt.Errorf("run %s: %w", Name, err)
	}
	return nil
}
