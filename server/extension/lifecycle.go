// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"net"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	basegate "k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/lifecycle"
	"github.com/kube-annex/annex/server/options"
)

// instance tells this server from others. Of embedded stores each has one server, wherever it runs.
func instance(backend *etcd.Backend, listener net.Listener) (string, error) {
	if backend.Owner != "" {
		return backend.Owner, nil
	}
	return options.Instance(listener)
}

// NewReporter returns gates that report what the process uses of them. It is for those who have the extension apiserver in one process
// with other parts that use the gates, and give it the result in Options.Gates; by itself the server makes one as component
// annex-apiserver.
func NewReporter(gates basegate.MutableVersionedFeatureGate, component string, backend *etcd.Backend, listener net.Listener) (*featuregate.Gate, error) {
	id, err := instance(backend, listener)
	if err != nil {
		return nil, err
	}
	return lifecycle.NewReporter(gates, gated(), component, id)
}

// reporter returns the process's gates.
func (s *Server) reporter(listener net.Listener) (*featuregate.Gate, error) {
	if given, ok := s.options.Gates.(*featuregate.Gate); ok {
		return given, nil
	}
	return NewReporter(s.options.Gates, Name, s.backend, listener)
}

func (s *Server) newEngines(reporter *featuregate.Gate, listener net.Listener, found resources, loopback *rest.Config, host kubernetes.Interface) (*lifecycle.Engines, error) {
	id, err := instance(s.backend, listener)
	if err != nil {
		return nil, err
	}
	return lifecycle.New(s.options.Lifecycle, lifecycle.Config{
		Gates: reporter, Gated: gated(), Resources: found, Instance: id, Loopback: loopback, Host: host,
	})
}

// EndLifecycle ends what the server does about features, and returns when the Leases that it has for that are given back to the host. It
// is for those who end the host before this server; otherwise that is part of Run. Run must have been called.
func (s *Server) EndLifecycle() {
	s.lifecycle.end()
	<-s.lifecycle.ended
}

// ending is work that can be ended before the server.
type ending struct {
	asked, ended chan struct{}
	// end asks for the end, and over says that it has come.
	end, over func()
}

func newEnding() ending {
	e := ending{asked: make(chan struct{}), ended: make(chan struct{})}
	e.end = sync.OnceFunc(func() { close(e.asked) })
	e.over = sync.OnceFunc(func() { close(e.ended) })
	return e
}

// run runs the work until the context ends, or somebody asks for its end.
func (e *ending) run(ctx context.Context, work func(context.Context)) {
	defer e.over()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(ctx)
	}()
	select {
	case <-e.asked:
		cancel()
	case <-done:
	}
	<-done
}
