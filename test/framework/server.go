// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package framework runs all of Annex inside a test: etcd, the control plane as host and the extension apiserver behind it, on
// free loopback ports and in a temporary directory. Any number of them run in parallel.
package framework

import (
	"context"
	"fmt"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/controllers/clusterclaims/clusterid"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework/syncbuffer"
)

// startTimeout is generous: on a shared machine many servers may start at once.
const startTimeout = 90 * time.Second

// Server is a running Annex. Its clients have all rights and go through the host's aggregator.
type Server struct {
	options *standalone.Options
	running *running

	Config        *rest.Config
	Annex         *versioned.Clientset
	Kubernetes    *kubernetes.Clientset
	APIExtensions *apiextensions.Clientset
	Dynamic       *dynamic.DynamicClient
	// Kubeconfig is the file that `annex up` tells its user to export.
	Kubeconfig string
}

type running struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	output *syncbuffer.Buffer
}

// Start runs Annex until the test ends, without the claim id.k8s.io. Each configure function may change the options first.
func Start(t testing.TB, configure ...func(*standalone.Options)) *Server {
	t.Helper()
	options := standalone.NewOptions()
	options.DataDir = t.TempDir()
	options.ControlPlane.Serving.Port = 0
	options.Extension.Serving.Port = 0
	options.Controllers.ClusterID.Source = clusterid.SourceNone
	for _, change := range configure {
		change(options)
	}
	s := &Server{options: options}
	t.Cleanup(func() {
		if s.running != nil {
			s.Stop(t)
		}
	})
	s.start(t)
	return s
}

// DataDir is where the server keeps everything.
func (s *Server) DataDir() string { return s.options.DataDir }

// Output is what the server told its user so far.
func (s *Server) Output() string { return s.running.output.String() }

// Stop ends the server as Ctrl-C does, and waits.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.running.cancel()
	select {
	case <-s.running.done:
	case <-time.After(startTimeout):
		t.Fatalf("annex did not stop within %s; it said:\n%s", startTimeout, s.Output())
	}
	if s.running.err != nil {
		t.Errorf("annex ended with: %v", s.running.err)
	}
	s.running = nil
}

// Resume starts a server that was stopped on the same data; the clients are new.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.start(t)
}

// Restart stops the server and starts it again on the same data; the clients are new.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	s.start(t)
}

func (s *Server) start(t testing.TB) {
	t.Helper()
	output := &syncbuffer.Buffer{}
	options := *s.options
	options.Out = output
	completed, err := options.Complete()
	if err != nil {
		t.Fatalf("options: %v", err)
	}
	server := standalone.New(completed)
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{cancel: cancel, done: make(chan struct{}), output: output}
	s.running = run
	go func() {
		defer close(run.done)
		run.err = server.Run(ctx)
	}()
	select {
	case <-server.Ready():
	case <-run.done:
		s.running = nil
		t.Fatalf("annex ended before it was ready: %v; it said:\n%s", run.err, output)
	case <-time.After(startTimeout):
		t.Fatalf("annex was not ready within %s; it said:\n%s", startTimeout, output)
	}
	s.Kubeconfig = server.Kubeconfig()
	s.Config = server.AdminConfig()
	s.Config.QPS = -1
	if err := s.makeClients(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) makeClients() (err error) {
	if s.Annex, err = versioned.NewForConfig(s.Config); err != nil {
		return fmt.Errorf("client of annex: %w", err)
	}
	if s.Kubernetes, err = kubernetes.NewForConfig(s.Config); err != nil {
		return fmt.Errorf("client of kubernetes: %w", err)
	}
	if s.APIExtensions, err = apiextensions.NewForConfig(s.Config); err != nil {
		return fmt.Errorf("client of apiextensions: %w", err)
	}
	if s.Dynamic, err = dynamic.NewForConfig(s.Config); err != nil {
		return fmt.Errorf("dynamic client: %w", err)
	}
	return nil
}
