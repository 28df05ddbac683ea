// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"

	generatedopenapi "github.com/kube-annex/annex/generated/openapi"
	featuresregistry "github.com/kube-annex/annex/registry/features"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/lifecycle"
	"github.com/kube-annex/annex/server/openapi"
	"github.com/kube-annex/annex/server/options"
	"github.com/kube-annex/annex/server/rotation"
)

const (
	// Name is the server's name in metrics, logs and its identity.
	Name = "annex-apiserver"
	// StoragePrefix is where the server's objects are in etcd. A host's are under /registry, so both can share a store.
	StoragePrefix = "/annex.io/registry"
	// informerResync is how often the informers of the host's objects repeat what they know.
	informerResync = 10 * time.Minute
)

// Server is one extension apiserver. It can be run once.
type Server struct {
	options CompletedOptions
	backend *etcd.Backend
	ready   chan struct{}
	// handler is set before ready is closed.
	handler http.Handler

	lifecycle ending
}

// New returns a server that keeps its objects in the backend. It starts nothing.
func New(completed CompletedOptions, backend *etcd.Backend) *Server {
	return &Server{options: completed, backend: backend, ready: make(chan struct{}), lifecycle: newEnding()}
}

// Ready is closed when /readyz is green for the first time.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Handler returns what answers the server's requests, for a host in the same process, or nil while the server is not ready. A request has to
// come with the state of the connection on which its sender has shown a certificate.
func (s *Server) Handler() http.Handler {
	select {
	case <-s.ready:
		return s.handler
	default:
		return nil
	}
}

// Run listens, serves, and returns when the context has ended and all requests under way have been answered. The
// backend has to outlive it.
func (s *Server) Run(ctx context.Context) error {
	defer s.lifecycle.over()
	listener, err := s.options.Serving.Listen(ctx)
	if err != nil {
		return err
	}
	// What the server needs while it drains ends after it.
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stopBackground()

	built, err := s.build(listener) //nolint:contextcheck // what the storage loads ends when the server has drained
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer built.hostInformers.Shutdown()
	for _, work := range built.background {
		running.Go(func() { work(background) })
	}
	running.Go(func() { s.lifecycle.run(ctx, built.engines.Run) })
	running.Go(func() { built.follower.Run(ctx) })
	running.Go(func() {
		if err := options.WaitReady(ctx, built.server.LoopbackClientConfig); err == nil {
			s.handler = built.server.Handler
			close(s.ready)
		}
	})
	if err := built.server.PrepareRun().RunWithContext(ctx); err != nil {
		return fmt.Errorf("run %s: %w", Name, err)
	}
	return nil
}

// parts are what build makes and Run runs.
type parts struct {
	server        *genericapiserver.GenericAPIServer
	hostInformers informers.SharedInformerFactory
	background    []func(context.Context)
	// engines and follower end with the server, not after it: they are its clients, and watch its storage.
	engines  *lifecycle.Engines
	follower *featuresregistry.Follower
}

func (s *Server) build(listener net.Listener) (*parts, error) {
	scheme := newScheme()
	codecs := serializer.NewCodecFactory(scheme)
	config, err := options.NewGenericConfig(Name, codecs, listener)
	if err != nil {
		return nil, err
	}
	config.FeatureGate = utilfeature.DefaultFeatureGate
	result := &parts{}
	serving := s.options.Serving
	if serving.CertFile == "" && serving.Certificate == nil {
		var certificate *rotation.Certificate
		if certificate, err = rotation.New(s.options.Certificates, s.options.Service, s.options.host, APIServiceNames()); err != nil {
			return nil, err
		}
		serving.Certificate = certificate
		config.AddReadyzChecks(healthz.NamedCheck("serving-certificate", certificate.Check))
		result.background = append(result.background, certificate.Run)
	}
	if err = serving.ApplyTo(&config.Config, listener); err != nil {
		return nil, err
	}
	s.options.Requests.ApplyTo(&config.Config)
	if err = s.options.Tracing.ApplyTo(&config.Config); err != nil {
		return nil, err
	}
	openapi.Apply(&config.Config, "Annex", generatedopenapi.GetOpenAPIDefinitions, scheme)
	reporter, err := s.reporter(listener)
	if err != nil {
		return nil, err
	}
	// What is stored is asked with each write, so the gates below decide only where there is nothing; those of the reporter follow later.
	features, err := newGating(reporter.MutableVersionedFeatureGate, s.options.OpenAPI)
	if err != nil {
		return nil, err
	}
	announcer, err := openapi.NewAnnouncer(s.options.host, features.publisher)
	if err != nil {
		return nil, err
	}
	result.background = append(result.background, announcer.Run)
	host, err := newHostClient(s.options.host)
	if err != nil {
		return nil, err
	}
	config.ClientConfig = s.options.host
	config.SharedInformerFactory = informers.NewSharedInformerFactory(host, informerResync)
	result.hostInformers = config.SharedInformerFactory

	if err = s.applyFencing(&config.Config, host); err != nil {
		return nil, err
	}

	trust := newHostTrust(host, s.options.Authentication.RequestHeader.AllowAnyName)
	if err = s.options.Authentication.ApplyTo(&config.Config, host.AuthenticationV1(), trust); err != nil {
		return nil, err
	}
	if s.options.Authentication.NeedsHost() {
		config.Authentication.Authenticator = trust.before(config.Authentication.Authenticator)
		config.AddReadyzChecks(healthz.NamedCheck("host-authentication", trust.Check))
		result.background = append(result.background, trust.Run)
	}
	if err = s.options.Authorization.ApplyTo(&config.Config, host.AuthorizationV1()); err != nil {
		return nil, err
	}
	if err = s.options.Audit.ApplyTo(&config.Config); err != nil {
		return nil, err
	}
	s.options.Features.ApplyTo(&config.Config)
	if s.options.Features.PriorityAndFairness {
		queues := newFlowControl(host, config.MaxRequestsInFlight+config.MaxMutatingRequestsInFlight)
		if err = queues.applyTo(&config.Config); err != nil {
			return nil, fmt.Errorf("set up priority and fairness: %w", err)
		}
		result.background = append(result.background, queues.Run)
	}
	chain, err := s.applyAdmission(config, host)
	if err != nil {
		return nil, err
	}
	result.background = append(result.background, chain.Run)
	joining, err := s.joining(host.CoreV1().Namespaces())
	if err != nil {
		return nil, err
	}
	if err = s.backend.ApplyTo(&config.Config, etcd.Storage{
		Prefix: StoragePrefix, Scheme: scheme, Codecs: codecs, EffectiveVersion: config.EffectiveVersion,
	}); err != nil {
		return nil, err
	}

	features.applyTo(&config.Config)
	server, err := config.Complete().New(Name, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", Name, err)
	}
	server.ShutdownTimeout = options.DrainTimeout
	found, err := installGroups(server, scheme, codecs, config.RESTOptionsGetter, deciders{permits: features.permits, joining: joining})
	if err == nil {
		err = features.publisher.Install(server)
	}
	if err == nil {
		result.engines, err = s.newEngines(reporter, listener, found, config.LoopbackClientConfig, host)
	}
	if err != nil {
		server.Destroy()
		return nil, err
	}
	result.follower = features.follower
	result.server = server
	return result, nil
}
