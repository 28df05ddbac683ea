// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/internal/genericserver"
)

const (
	// Name is the server's name in metrics, logs and its identity.
	Name = "annex-apiserver"
	// StoragePrefix is the prefix of the server's objects in etcd. A host's prefix is /registry, so both can share a store.
	StoragePrefix = "/annex.io/registry"
)

// Server is one extension apiserver. It can be run once.
type Server struct {
	options CompletedOptions
	backend *etcd.Backend
	ready   chan struct{}
	// handler holds nil until the server is ready.
	handler atomic.Pointer[genericapiserver.APIServerHandler]

	lifecycle stopper
}

// New returns a server that keeps its objects in the backend. It starts nothing.
func New(completed CompletedOptions, backend *etcd.Backend) *Server {
	return &Server{options: completed, backend: backend, ready: make(chan struct{}), lifecycle: newStopper()}
}

// Ready is closed when the server is ready for the first time.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Handler returns the handler of the server's requests, for a host in the same process, or nil until the server is ready. A request needs the
// TLS state of the connection on which its sender has shown a certificate.
func (s *Server) Handler() http.Handler {
	if handler := s.handler.Load(); handler != nil {
		return handler
	}
	return nil
}

// Run listens, serves, and returns when the context has ended and all requests are answered. The backend must outlive it.
func (s *Server) Run(ctx context.Context) error {
	defer s.lifecycle.markStopped()
	listener, err := s.options.Serving.Listen(ctx)
	if err != nil {
		return err
	}
	config, err := newConfig(s.options, s.backend, listener) //nolint:contextcheck // what the storage loads ends when the server has drained
	if err != nil {
		_ = listener.Close()
		return err
	}
	server, engines, err := config.build()
	if err != nil {
		_ = listener.Close()
		return err
	}
	// The background work ends after the server has drained.
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stopBackground()
	defer config.generic.SharedInformerFactory.Shutdown()
	for _, run := range config.background {
		running.Go(func() { run(background) })
	}
	// These end with the context: they are clients of the server, and watch its storage.
	running.Go(func() { s.lifecycle.run(ctx, engines.Run) })
	running.Go(func() { config.gating.Follower.Run(ctx) })
	running.Go(func() {
		if err := genericserver.WaitReady(ctx, server.LoopbackClientConfig); err == nil {
			s.handler.Store(server.Handler)
			close(s.ready)
		}
	})
	if err := server.PrepareRun().RunWithContext(ctx); err != nil {
		return fmt.Errorf("run %s: %w", Name, err)
	}
	return nil
}

// StopLifecycle stops the work on features, and returns when its Leases on the host are released. It is for a process that stops the host
// before this server; Run does it otherwise. Run must have been called.
func (s *Server) StopLifecycle() {
	s.lifecycle.stop()
	<-s.lifecycle.stopped
}

// stopper stops work before its context ends.
type stopper struct {
	stopping, stopped chan struct{}
	stop, markStopped func()
}

func newStopper() stopper {
	s := stopper{stopping: make(chan struct{}), stopped: make(chan struct{})}
	s.stop = sync.OnceFunc(func() { close(s.stopping) })
	s.markStopped = sync.OnceFunc(func() { close(s.stopped) })
	return s
}

// run runs the work until the context ends or stop is called.
func (s *stopper) run(ctx context.Context, work func(context.Context)) {
	defer s.markStopped()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	work(ctx)
}
