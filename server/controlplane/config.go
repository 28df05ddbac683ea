// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"net"
	"net/http"
	"time"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	apiregistrationlisters "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"github.com/kube-annex/annex/server/controlplane/bootstrappolicy"
	"github.com/kube-annex/annex/server/controlplane/internal/aggregator"
	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
	"github.com/kube-annex/annex/server/controlplane/internal/localdispatch"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/internal/filters"
	"github.com/kube-annex/annex/server/internal/filters/fencing"
	"github.com/kube-annex/annex/server/internal/genericserver"
	"github.com/kube-annex/annex/server/openapi"
)

const (
	// informerResync is the resync period of informers.
	informerResync = 10 * time.Minute
	// apiServiceResync is the resync period of the informers of the aggregator.
	apiServiceResync = 5 * time.Minute
)

// config configures the servers of the chain. The configuration of built-in resources is the one that the others are copied from.
type config struct {
	options CompletedOptions
	backend *etcd.Backend
	scheme  *runtime.Scheme
	codecs  serializer.CodecFactory

	native *genericapiserver.RecommendedConfig
	// customResources and aggregator are unused if they are disabled.
	customResources *apiextensionsapiserver.Config
	aggregator      aggregator.Config

	loopback       *loopback
	authentication *authenticationConfig
	// rootCA reads the certificate authorities of the serving certificate; nil if they are unknown.
	rootCA func() ([]byte, error)
	// policy creates the bootstrap roles and bindings; nil without role-based access control.
	policy    *bootstrappolicy.Controller
	admission *admissionConfig
	remotes   *remotes
}

// completedConfig is a config that is complete; only complete returns one.
type completedConfig struct {
	*config
	native          genericapiserver.CompletedConfig
	customResources apiextensionsapiserver.CompletedConfig
	publisher       *openapi.Publisher
}

// newConfig configures the chain. Keys of external issuers are loaded, and long-running requests served, until the server begins to stop.
func newConfig(o CompletedOptions, backend *etcd.Backend, listener net.Listener, onStop filters.OnStop) (*config, error) {
	scheme := o.kinds.NewScheme()
	codecs := serializer.NewCodecFactory(scheme)
	generic, err := o.newGenericConfig(codecs, listener)
	if err != nil {
		return nil, err
	}
	loopback, err := newLoopback(generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	generic.SharedInformerFactory = loopback.informers
	remotes, err := newRemotes(o, loopback, generic.FeatureGate)
	if err != nil {
		return nil, err
	}
	if err = o.applyFilters(&generic.Config, remotes, onStop); err != nil {
		return nil, err
	}
	authentication, err := newAuthentication(o, &generic.Config, onStop)
	if err != nil {
		return nil, err
	}
	policy, err := newAuthorization(o, &generic.Config, loopback)
	if err != nil {
		return nil, err
	}
	if o.queues() {
		generic.FlowControl = utilflowcontrol.New(loopback.informers, loopback.client.FlowcontrolV1(), generic.MaxRequestsInFlight+generic.MaxMutatingRequestsInFlight)
	}
	admission, err := newAdmission(o, generic, loopback)
	if err != nil {
		return nil, err
	}
	if err = backend.ApplyTo(&generic.Config, etcd.Storage{
		Prefix: StoragePrefix, Scheme: scheme, Codecs: codecs, JSON: o.kinds.StoredAsJSON(), EffectiveVersion: generic.EffectiveVersion,
	}); err != nil {
		return nil, err
	}
	customResources, err := newCustomResourcesConfig(o, generic, backend, admission, loopback)
	if err != nil {
		return nil, err
	}
	aggregatorConfig, err := newAggregatorConfig(o, generic, backend, loopback, remotes)
	if err != nil {
		return nil, err
	}
	return &config{
		options: o, backend: backend, scheme: scheme, codecs: codecs, native: generic, customResources: customResources, aggregator: aggregatorConfig,
		loopback: loopback, authentication: authentication, policy: policy, admission: admission, remotes: remotes,
		rootCA: o.rootCA(generic.SecureServing.Cert),
	}, nil
}

// complete completes the configurations of the servers.
func (c *config) complete() *completedConfig {
	publisher := openapi.NewPublisher(gates.Gated{}, nil)
	publisher.ApplyTo(&c.native.Config)
	return &completedConfig{config: c, native: c.native.Complete(), customResources: c.customResources.Complete(), publisher: publisher}
}

// newGenericConfig applies the options that need no client.
func (o *completedOptions) newGenericConfig(codecs serializer.CodecFactory, listener net.Listener) (*genericapiserver.RecommendedConfig, error) {
	generic, err := genericserver.NewConfig(Name, codecs, listener, o.FeatureGate)
	if err != nil {
		return nil, err
	}
	config := &generic.Config
	if err = o.Serving.ApplyTo(config, listener); err != nil {
		return nil, err
	}
	o.Requests.ApplyTo(config)
	if err = o.Tracing.ApplyTo(config); err != nil {
		return nil, err
	}
	if err = o.Audit.ApplyTo(config); err != nil {
		return nil, err
	}
	o.Features.ApplyTo(config)
	config.LoopbackClientConfig.ContentType = runtime.ContentTypeProtobuf
	config.LoopbackClientConfig.DisableCompression = true
	served := o.servedSchemes()
	openapi.Apply(config, "Annex", definitions(o.AdditionalGroups, served...), served...)
	config.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	return generic, nil
}

// applyFilters sets the handler chain, which all servers share.
func (o *completedOptions) applyFilters(config *genericapiserver.Config, remotes *remotes, onStop filters.OnStop) error {
	fences, err := fencing.NewMetrics(o.Metrics.Register)
	if err != nil {
		return err
	}
	var withLocalDispatch func(http.Handler) http.Handler
	if remotes.dispatcher != nil {
		withLocalDispatch = remotes.dispatcher.WithLocalDispatch
	}
	filters.ControlPlane{OnStop: onStop, Fence: fencing.InTransaction(fences), WithLocalDispatch: withLocalDispatch}.ApplyTo(config)
	return nil
}

// clients send requests as one user.
type clients struct {
	config   *rest.Config
	client   kubernetes.Interface
	services aggregatorclient.Interface
}

func newClients(config *rest.Config) (clients, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("create the client: %w", err)
	}
	services, err := aggregatorclient.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("create the client for APIServices: %w", err)
	}
	return clients{config: config, client: client, services: services}, nil
}

// loopback is the clients of the server to itself, and their informers.
type loopback struct {
	clients
	informers        informers.SharedInformerFactory
	serviceInformers aggregatorinformers.SharedInformerFactory
}

func newLoopback(config *rest.Config) (*loopback, error) {
	self, err := newClients(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the server itself: %w", err)
	}
	return &loopback{
		clients:          self,
		informers:        informers.NewSharedInformerFactoryWithOptions(self.client, informerResync, informers.WithTransform(withoutManagedFields)),
		serviceInformers: aggregatorinformers.NewSharedInformerFactory(self.services, apiServiceResync),
	}, nil
}

// remotes is the configuration of connections to the servers of remote APIServices.
type remotes struct {
	servers remoteservers.Servers
	// frontProxy is the client certificate for these servers; nil if there is none.
	frontProxy *dynamiccertificates.DynamicCertKeyPairContent
	// dispatcher is nil if no server runs in this process.
	dispatcher *localdispatch.Dispatcher
}

func newRemotes(o CompletedOptions, loopback *loopback, gates featuregate.FeatureGate) (*remotes, error) {
	servers := remoteservers.Servers{Resolver: o.ServiceResolver}
	var frontProxy *dynamiccertificates.DynamicCertKeyPairContent
	if o.ProxyClientCertFile != "" {
		var err error
		if frontProxy, err = dynamiccertificates.NewDynamicServingContentFromFiles("aggregator-proxy-cert", o.ProxyClientCertFile, o.ProxyClientKeyFile); err != nil {
			return nil, fmt.Errorf("read --proxy-client-cert-file and --proxy-client-key-file: %w", err)
		}
		servers = remoteservers.Servers{Resolver: o.ServiceResolver, ClientCertificate: frontProxy.CurrentCertKeyContent}
	}
	if o.LocalDispatch == nil || o.DisableAggregator {
		return &remotes{servers: servers, frontProxy: frontProxy}, nil
	}
	services := loopback.serviceInformers.Apiregistration().V1().APIServices().Lister()
	dispatcher := localdispatch.New(o.LocalDispatch, localdispatch.NewIdentity(servers.Certificate), services, gates)
	return &remotes{servers: servers, frontProxy: frontProxy, dispatcher: dispatcher}, nil
}

// copyGenericConfig returns a configuration for another server of the chain, with storage for the kinds of its scheme.
func copyGenericConfig(generic *genericapiserver.RecommendedConfig, backend *etcd.Backend, scheme *runtime.Scheme, codecs serializer.CodecFactory) (*genericapiserver.RecommendedConfig, error) {
	config := *generic
	// Hooks are registered once, with the server of built-in resources, and reach the other servers through the chain.
	config.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	config.RESTOptionsGetter = nil
	// The copy has the health checks of the store already.
	healthz, livez, readyz := config.HealthzChecks, config.LivezChecks, config.ReadyzChecks
	if err := backend.ApplyTo(&config.Config, etcd.Storage{Prefix: StoragePrefix, Scheme: scheme, Codecs: codecs, EffectiveVersion: config.EffectiveVersion}); err != nil {
		return nil, err
	}
	config.HealthzChecks, config.LivezChecks, config.ReadyzChecks = healthz, livez, readyz
	return &config, nil
}

func newCustomResourcesConfig(o CompletedOptions, generic *genericapiserver.RecommendedConfig, backend *etcd.Backend, admission *admissionConfig, loopback *loopback) (*apiextensionsapiserver.Config, error) {
	config, err := copyGenericConfig(generic, backend, apiextensionsapiserver.Scheme, apiextensionsapiserver.Codecs)
	if err != nil {
		return nil, err
	}
	config.MergedResourceConfig = apiextensionsapiserver.DefaultAPIResourceConfigSource()
	config.DisabledPostStartHooks = config.DisabledPostStartHooks.Union(sets.NewString(upstreamSyncedHook))
	storage, err := backend.CustomResourceRESTOptions(&config.Config, StoragePrefix)
	if err != nil {
		return nil, err
	}
	var services apiregistrationlisters.APIServiceLister
	if !o.DisableAggregator {
		services = loopback.serviceInformers.Apiregistration().V1().APIServices().Lister()
	}
	config.AdmissionControl = definitionConflicts{
		Interface: config.AdmissionControl, client: loopback.client.Discovery().RESTClient(), services: services, isBuiltIn: o.kinds.Serve,
	}
	return &apiextensionsapiserver.Config{
		GenericConfig: config,
		ExtraConfig: apiextensionsapiserver.ExtraConfig{
			CRDRESTOptionsGetter: storage,
			// With more than one, a new definition would wait 5 s for the other replicas to observe it.
			MasterCount:         1,
			ServiceResolver:     admission.services,
			AuthResolverWrapper: admission.credentials,
		},
	}, nil
}

func newAggregatorConfig(o CompletedOptions, generic *genericapiserver.RecommendedConfig, backend *etcd.Backend, loopback *loopback, remotes *remotes) (aggregator.Config, error) {
	config, err := copyGenericConfig(generic, backend, aggregatorscheme.Scheme, aggregatorscheme.Codecs)
	if err != nil {
		return aggregator.Config{}, err
	}
	return aggregator.Config{
		Generic: config, Servers: remotes.servers, Client: loopback.services, Informers: loopback.serviceInformers, Metrics: o.Metrics,
	}, nil
}

// withoutManagedFields removes managedFields, which no controller reads, from the objects of informers.
func withoutManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}
