// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllermanager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/server/featuregating"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/internal/genericserver"
)

const (
	// Name is the server's name in metrics, logs and its identity.
	Name = "annex-controllers"
	// members is the prefix of the Leases by which replicas know each other.
	members = "annex-controllers"
	// leadershipPath tells who leads what.
	leadershipPath = "/healthz/leadership"
)

// Server is the controllers of one process with their health checks and metrics. It can be run once.
type Server struct {
	options CompletedOptions
	ready   chan struct{}
}

// New returns a server that has not started anything.
func New(completed CompletedOptions) *Server {
	return &Server{options: completed, ready: make(chan struct{})}
}

// Ready is closed when /readyz is green for the first time. Followers are ready.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run campaigns for the groups and serves, and returns when the context has ended, all controllers have stopped, and their Leases
// have been released.
func (s *Server) Run(ctx context.Context) error {
	listener, err := s.options.Serving.Listen(ctx)
	if err != nil {
		return err
	}
	reporter, err := s.reporter(listener)
	if err != nil {
		_ = listener.Close()
		return err
	}
	server, candidate, err := s.build(listener, reporter)
	if err != nil {
		_ = listener.Close()
		return err
	}
	// Probes are answered until the controllers have stopped.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	leading, stopLeading := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stopLeading()
	defer stopServing()
	var candidateErr error
	led := make(chan struct{})
	running.Go(func() {
		defer close(led)
		defer stopServing()
		candidateErr = candidate.Run(leading)
	})
	running.Go(func() {
		if reporterErr := reporter.Run(leading, s.options.host); reporterErr != nil {
			klog.FromContext(ctx).Error(reporterErr, "The feature gates of this process are not reported")
		}
	})
	if identity := s.options.ClusterIdentity; identity != nil {
		running.Go(func() {
			if runErr := identity.Run(leading, s.options.host); runErr != nil {
				klog.FromContext(ctx).Error(runErr, "The identity of the cluster is not followed")
			}
		})
	}
	running.Go(func() {
		if genericserver.WaitReady(leading, server.LoopbackClientConfig) == nil {
			close(s.ready)
		}
	})
	if err = server.PrepareRun().RunWithContext(serving); err != nil {
		err = fmt.Errorf("run %s: %w", Name, err)
	}
	stopLeading()
	<-led
	return errors.Join(err, candidateErr)
}

// reporter returns gates that report what the process uses of them. None of them gates what is stored, so none follows its Feature.
func (s *Server) reporter(listener net.Listener) (*featuregate.Gate, error) {
	instance, err := genericserver.Instance(listener)
	if err != nil {
		return nil, err
	}
	return featuregating.NewReporter(s.options.Gates, gates.Gated{}, Name, instance)
}

func (s *Server) build(listener net.Listener, gates *featuregate.Gate) (*genericapiserver.GenericAPIServer, *leadership.Elector, error) {
	o := s.options.Leadership.ElectorOptions(s.options.host, gates)
	o.Replicas.Namespace, o.Replicas.Name = s.options.Groups.LeaseNamespace, members
	candidate, err := leadership.New(o, s.options.Groups.List()...)
	if err != nil {
		return nil, nil, fmt.Errorf("set up leadership: %w", err)
	}
	config, err := s.config(listener)
	if err != nil {
		return nil, nil, err
	}
	config.AddReadyzChecks(candidate)
	server, err := config.Complete().New(Name, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, nil, fmt.Errorf("build %s: %w", Name, err)
	}
	server.ShutdownTimeout = genericserver.DrainTimeout
	candidate.UseMux(server.Handler.NonGoRestfulMux)
	server.Handler.NonGoRestfulMux.Handle(leadershipPath, candidate)
	return server, candidate, nil
}

// config is that of a server without an API.
func (s *Server) config(listener net.Listener) (*genericapiserver.RecommendedConfig, error) {
	config, err := genericserver.NewConfig(Name, serializer.NewCodecFactory(runtime.NewScheme()), listener, nil)
	if err != nil {
		return nil, err
	}
	config.EnableDiscovery = false
	config.SkipOpenAPIInstallation = true
	config.EnableProfiling = s.options.Profiling
	config.ShutdownWatchTerminationGracePeriod = 0
	if err = s.options.Serving.ApplyTo(&config.Config, listener); err != nil {
		return nil, err
	}
	host, err := kubernetes.NewForConfig(s.options.host)
	if err != nil {
		return nil, fmt.Errorf("make a client of the host: %w", err)
	}
	if err = s.options.applyAuthentication(&config.Config, host.AuthenticationV1()); err != nil {
		return nil, err
	}
	if err = s.options.Authorization.ApplyTo(&config.Config, host.AuthorizationV1()); err != nil {
		return nil, err
	}
	config.RequestTimeout = time.Minute
	return config, nil
}
