// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	localavailability "k8s.io/kube-aggregator/pkg/controllers/status/local"
	availabilitymetrics "k8s.io/kube-aggregator/pkg/controllers/status/metrics"
	apiservicerest "k8s.io/kube-aggregator/pkg/registry/apiservice/rest"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteopenapi"
	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
)

const (
	// name is the server's name in metrics, as that of Kubernetes' own.
	name = "kube-aggregator"
	// localWorkers is how many local APIServices are written at once.
	localWorkers = 5
	// groupPriority puts the group of APIServices in front of all others, whose priority is at most 20000.
	groupPriority = 20001
)

// Config configures an aggregator.
type Config struct {
	Generic *genericapiserver.RecommendedConfig
	// Servers reaches the servers of remote APIServices.
	Servers remoteservers.Servers
	// Client writes the status of local APIServices.
	Client clientset.Interface
	// Informers are those of APIServices. The aggregator starts them.
	Informers informers.SharedInformerFactory
	// Metrics registers the metrics of availability.
	Metrics Registry
}

// Registry registers metrics.
type Registry interface {
	Register(metrics.Registerable) error
	CustomRegister(metrics.StableCollector) error
}

// Aggregator is the server.
type Aggregator struct {
	GenericAPIServer *genericapiserver.GenericAPIServer

	informers informers.SharedInformerFactory
	delegate  genericapiserver.DelegationTarget
	openAPI   *common.Config
	openAPIV3 *common.OpenAPIV3Config
	routes    *routes
	followers *followers
	remote    *remoteopenapi.Documents
	// following is the work of the followers.
	following sync.WaitGroup
}

// New builds the server in front of the delegate.
func New(config Config, delegate genericapiserver.DelegationTarget) (*Aggregator, error) {
	generic := config.Generic
	// What this server has of its own is put together with that of those behind it.
	generic.SkipOpenAPIInstallation = true
	completed := generic.Complete()
	completed.EnableDiscovery = false
	server, err := completed.New(name, delegate)
	if err != nil {
		return nil, fmt.Errorf("create the generic server: %w", err)
	}
	a := &Aggregator{
		GenericAPIServer: server, informers: config.Informers,
		delegate: delegate, openAPI: generic.OpenAPIConfig, openAPIV3: generic.OpenAPIV3Config,
	}
	a.remote = remoteopenapi.New(config.Servers, a.informers.Apiregistration().V1().APIServices().Lister())
	storage := apiservicerest.NewRESTStorage(apiserver.DefaultAPIResourceConfigSource(), completed.RESTOptionsGetter, false)
	if err = server.InstallAPIGroup(&storage); err != nil {
		return nil, fmt.Errorf("install APIServices: %w", err)
	}
	discovery := server.AggregatedDiscoveryGroupManager
	discovery.WithSource(aggregated.BuiltinSource).SetGroupVersionPriority(metav1.GroupVersion(apiregistrationv1.SchemeGroupVersion), groupPriority, 0)
	a.followers = newFollowers(config.Servers, discovery.WithSource(aggregated.AggregatorSource))
	if err = a.route(config, &completed); err != nil {
		return nil, err
	}
	return a, a.keepLocalAvailable(config)
}

// route makes the server send requests to where its APIServices say.
func (a *Aggregator) route(config Config, completed *genericapiserver.CompletedConfig) error {
	services := a.informers.Apiregistration().V1().APIServices()
	proxy := &proxy{servers: config.Servers, tracer: completed.TracerProvider, timeout: completed.RequestTimeout, gates: completed.FeatureGate}
	a.routes = &routes{
		mux: a.GenericAPIServer.Handler.NonGoRestfulMux, lister: services.Lister(), next: a.delegate.UnprotectedHandler(), proxy: proxy, groups: map[string]int{},
	}
	groups := &groups{lister: services.Lister()}
	a.routes.mux.Handle("/apis", aggregated.WrapAggregatedDiscoveryToHandler(groups, a.GenericAPIServer.AggregatedDiscoveryGroupManager, nil))
	a.routes.mux.UnlistedHandle("/apis/", groups)
	return a.follow(services.Informer())
}

// follow keeps routes and followers as the APIServices are.
func (a *Aggregator) follow(services cache.SharedIndexInformer) error {
	known := make(chan struct{})
	if err := a.GenericAPIServer.RegisterMuxAndDiscoveryCompleteSignal("APIServiceRegistrationControllerInitiated", known); err != nil {
		return fmt.Errorf("register the signal of APIServices: %w", err)
	}
	// Handlers of one registration are called one after the other.
	handlers, err := services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			service := obj.(*apiregistrationv1.APIService)
			a.routes.add(service.Name)
			a.followers.update(nil, service)
		},
		UpdateFunc: func(old, obj any) {
			a.followers.update(old.(*apiregistrationv1.APIService), obj.(*apiregistrationv1.APIService))
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if service, ok := obj.(*apiregistrationv1.APIService); ok {
				a.routes.remove(service.Name)
				a.followers.remove(service)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("follow APIServices: %w", err)
	}
	if err := a.hook("start-kube-aggregator-informers", func(ctx genericapiserver.PostStartHookContext) {
		a.informers.Start(ctx.Done())
	}); err != nil {
		return err
	}
	// Until then what is not known may well exist: a 404 would have serious consequences for some controllers.
	if err := a.hook("apiservice-registration-controller", func(ctx genericapiserver.PostStartHookContext) {
		if cache.WaitForCacheSync(ctx.Done(), handlers.HasSynced) {
			close(known)
		}
	}); err != nil {
		return err
	}
	return a.hook("apiservice-discovery-controller", func(ctx genericapiserver.PostStartHookContext) {
		select {
		case <-known:
		case <-ctx.Done():
			return
		}
		a.following.Go(func() { a.followers.run(ctx) })
		a.followers.waitForFirst(ctx)
	})
}

// keepLocalAvailable sets the condition of APIServices that are answered here.
func (a *Aggregator) keepLocalAvailable(config Config) error {
	availabilityMetrics := availabilitymetrics.New()
	// Another control plane of the process may have registered its metrics before.
	_ = availabilityMetrics.Register(config.Metrics.Register, config.Metrics.CustomRegister)
	controller, err := localavailability.New(a.informers.Apiregistration().V1().APIServices(), config.Client.ApiregistrationV1(), availabilityMetrics)
	if err != nil {
		return fmt.Errorf("create the controller of local APIServices: %w", err)
	}
	return a.hook("apiservice-status-local-available-controller", func(ctx genericapiserver.PostStartHookContext) {
		go controller.Run(localWorkers, ctx.Done())
	})
}

func (a *Aggregator) hook(name string, run func(genericapiserver.PostStartHookContext)) error {
	err := a.GenericAPIServer.AddPostStartHook(name, func(ctx genericapiserver.PostStartHookContext) error {
		run(ctx)
		return nil
	})
	if err != nil {
		return fmt.Errorf("add the hook %s: %w", name, err)
	}
	return nil
}

// Prepared is an aggregator that can be run.
type Prepared struct {
	aggregator *Aggregator
	server     interface {
		RunWithContext(ctx context.Context) error
	}
}

// PrepareRun adds health checks and OpenAPI, when all servers behind this one have theirs.
func (a *Aggregator) PrepareRun() (Prepared, error) {
	prepared := Prepared{a, a.GenericAPIServer.PrepareRun()}
	return prepared, a.installOpenAPI()
}

// Run serves until the context ends.
func (p Prepared) Run(ctx context.Context) error {
	defer p.aggregator.following.Wait()
	defer p.aggregator.remote.Stop()
	return p.server.RunWithContext(ctx)
}
