// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kube-annex/annex/server/controlplane/controllers/remoteservers"
	"github.com/kube-annex/annex/server/controlplane/serviceaccounts"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/openapi"
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
	// tokens are those of service accounts, once the chain is built; nil where there are none.
	tokens *serviceaccounts.Tokens
	// servers are those behind remote APIServices, once the chain is built.
	servers remoteservers.Servers
	// rootCA reads the authorities that the server is known by; nil where they are not published.
	rootCA func() ([]byte, error)
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
	// The server outlives the context for as long as the candidate needs to give its Lease back through it.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	onStop := func(f func()) func() bool { return context.AfterFunc(serving, f) }
	chain, err := s.build(onStop, listener) //nolint:contextcheck // what the storage loads ends when the server has drained
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer chain.config.SharedInformerFactory.Shutdown()
	parts, err := s.prepare(chain)
	if err != nil {
		chain.destroy()
		_ = listener.Close()
		return err
	}
	return s.serve(ctx, serving, stopServing, chain, parts)
}

// parts are what runs.
type parts struct {
	server interface {
		Run(ctx context.Context) error
	}
	controllers *controllers
	// lead runs the controllers that run in one replica at a time.
	lead func(context.Context) error
}

// prepare adds controllers and health checks to the chain. It starts no work.
func (s *Server) prepare(c *chain) (*parts, error) {
	p := &parts{}
	var err error
	if p.controllers, err = s.controllers(c); err != nil {
		return nil, err
	}
	if err = s.addReadinessChecks(c, p.controllers); err != nil {
		return nil, err
	}
	if p.lead, err = s.leading(c, p.controllers.namespaces); err != nil {
		return nil, err
	}
	if c.aggregator == nil {
		p.server = alone{c.native.PrepareRun()}
	} else if p.server, err = c.aggregator.PrepareRun(); err != nil {
		return nil, fmt.Errorf("prepare the aggregator: %w", err)
	}
	openapi.Release(&c.config.Config)
	return p, nil
}

// alone is a server without an aggregator in front of it. Its PrepareRun gives it another method to run than that of an aggregator.
type alone struct {
	prepared interface {
		RunWithContext(ctx context.Context) error
	}
}

// Run serves until the context ends.
func (a alone) Run(ctx context.Context) error { return a.prepared.RunWithContext(ctx) }

// serve runs the parts until the context ends; what leads stops first, and then the server.
func (s *Server) serve(ctx, serving context.Context, stopServing func(), chain *chain, p *parts) error {
	// Controllers end as soon as the server is told to: what they would still do, the next start does.
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, run := range p.controllers.run {
		running.Go(func() { run(ctx) })
	}
	running.Go(func() { chain.admission.Run(serving) })
	running.Go(func() { chain.users.Run(serving) })
	if chain.frontProxy != nil {
		running.Go(func() { chain.frontProxy.Run(serving, 1) })
	}
	stopped := make(chan struct{})
	var leading error
	running.Go(func() {
		defer close(stopped)
		defer cancel()
		leading = p.lead(ctx)
	})
	running.Go(func() {
		defer stopServing()
		<-ctx.Done()
		select {
		case <-stopped:
		case <-time.After(s.options.Leadership.Timings.StopTimeout):
		}
	})
	running.Go(func() {
		if err := options.WaitReady(ctx, chain.config.LoopbackClientConfig); err == nil {
			close(s.ready)
		}
	})
	ended := make(chan struct{})
	running.Go(func() {
		select {
		case <-chain.config.DrainedNotify():
			close(s.drained)
		case <-ended: // it never ran
		}
	})
	err := p.server.Run(serving)
	close(ended)
	cancel()
	<-stopped
	if err != nil {
		err = fmt.Errorf("run %s: %w", Name, err)
	}
	return errors.Join(err, leading)
}
