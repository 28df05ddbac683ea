// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/systemnamespaces"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/internal/filters"
	"github.com/kube-annex/annex/server/internal/genericserver"
)

const (
	// Name is the server's name in metrics, logs and its identity.
	Name = "annex-controlplane"
	// StoragePrefix is the prefix of the server's objects in etcd, as in every Kubernetes cluster.
	StoragePrefix = "/registry"
)

// Server is one control plane. It can be run once.
type Server struct {
	options CompletedOptions
	backend *etcd.Backend
	ready   chan struct{}
	drained chan struct{}
}

// New returns a control plane that stores its objects in the backend. It starts nothing.
func New(completed CompletedOptions, backend *etcd.Backend) *Server {
	return &Server{options: completed, backend: backend, ready: make(chan struct{}), drained: make(chan struct{})}
}

// Ready is closed when /readyz succeeds for the first time.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Drained is closed when a server that was told to stop has answered all requests. Run returns a second later: meanwhile clients learn that
// their connections end.
func (s *Server) Drained() <-chan struct{} { return s.drained }

// Run listens and serves. It returns when the context has ended, all requests have been answered, and all controllers have stopped. The
// backend must outlive it.
func (s *Server) Run(ctx context.Context) error {
	listener, err := s.options.Serving.Listen(ctx)
	if err != nil {
		return err
	}
	// The server outlives the context until the elector has released its Lease through it.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	onStop := func(f func()) func() bool { return context.AfterFunc(serving, f) }
	prepared, err := s.prepareRun(listener, onStop) //nolint:contextcheck // what the storage loads ends when the server has drained
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer prepared.loopback.informers.Shutdown()
	return s.run(ctx, serving, stopServing, prepared)
}

// preparedRun is everything that runs.
type preparedRun struct {
	*completedConfig
	server      preparedServer
	controllers []*controller
	// lead runs the leader's controllers.
	lead func(context.Context) error
}

// prepareRun configures and creates the servers and the controllers.
func (s *Server) prepareRun(listener net.Listener, onStop filters.OnStop) (*preparedRun, error) {
	config, err := newConfig(s.options, s.backend, listener, onStop)
	if err != nil {
		return nil, err
	}
	completed := config.complete()
	chain, err := newServerChain(completed)
	if err != nil {
		return nil, err
	}
	prepared, err := s.prepareChain(completed, chain)
	if err != nil {
		chain.front().Destroy()
		return nil, err
	}
	return prepared, nil
}

func (s *Server) prepareChain(c *completedConfig, chain *serverChain) (*preparedRun, error) {
	var namespaces []string
	if c.options.serve(namespaceKind) {
		namespaces = systemNamespaces()
	}
	controllers := &controllerContext{
		completedConfig: c, chain: chain, ready: s.ready, namespaces: systemnamespaces.New(c.loopback.client, namespaces...),
		clients: c.loopback.clients, informers: c.loopback.informers, serviceInformers: c.loopback.serviceInformers,
	}
	replica, err := newReplicaControllers(controllers)
	if err != nil {
		return nil, err
	}
	for _, created := range replica {
		if created.check == nil {
			continue
		}
		if err = chain.front().AddReadyzChecks(created.check); err != nil {
			return nil, fmt.Errorf("add readiness check %s: %w", created.check.Name(), err)
		}
	}
	lead, err := newLeaderRun(controllers)
	if err != nil {
		return nil, err
	}
	server, err := chain.prepareRun()
	if err != nil {
		return nil, err
	}
	c.releaseOpenAPI()
	return &preparedRun{completedConfig: c, server: server, controllers: replica, lead: lead}, nil
}

// run runs everything until the context ends. The leader's controllers stop first, and then the server.
func (s *Server) run(ctx, serving context.Context, stopServing func(), p *preparedRun) error {
	// Controllers end with the context: the next start does the rest of their work.
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	p.runBackground(ctx, serving, &running)

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
	ended := make(chan struct{})
	s.signal(ctx, p, ended, &running)
	err := p.server.Run(serving)
	close(ended)
	cancel()
	<-stopped
	if err != nil {
		err = fmt.Errorf("run %s: %w", Name, err)
	}
	return errors.Join(err, leading)
}

// runBackground starts the controllers of every replica, which end with ctx, and the parts of the server, which end with serving.
func (p *preparedRun) runBackground(ctx, serving context.Context, running *sync.WaitGroup) {
	for _, c := range p.controllers {
		if c.run != nil {
			running.Go(func() { _ = c.run(ctx) }) // those of every replica do not fail
		}
	}
	running.Go(func() { p.admission.chain.Run(serving) })
	running.Go(func() { p.authentication.users.Run(serving) })
	if p.remotes.frontProxy != nil {
		running.Go(func() { p.remotes.frontProxy.Run(serving, 1) })
	}
}

// signal closes the channels of Ready and Drained in time. The server may end before it has drained, if it never ran.
func (s *Server) signal(ctx context.Context, p *preparedRun, ended <-chan struct{}, running *sync.WaitGroup) {
	running.Go(func() {
		if err := genericserver.WaitReady(ctx, p.loopback.config); err == nil {
			close(s.ready)
		}
	})
	running.Go(func() {
		select {
		case <-p.native.DrainedNotify():
			close(s.drained)
		case <-ended:
		}
	})
}
