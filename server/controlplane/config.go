// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kube-annex/annex/server/admission"
	"github.com/kube-annex/annex/server/controlplane/controllers/authenticationtrust"
	"github.com/kube-annex/annex/server/controlplane/externalusers"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/fencing"
	"github.com/kube-annex/annex/server/openapi"
	"github.com/kube-annex/annex/server/options"
)

// informerResync is how often informers repeat what they know.
const informerResync = 10 * time.Minute

// onStop has a function called when the server is told to stop, unless what it returns is called before.
type onStop func(func()) (forget func() bool)

// foundation is what the three servers of the chain share.
type foundation struct {
	// config is that of the native kinds; the others are made from copies.
	config *genericapiserver.RecommendedConfig
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	client kubernetes.Interface
	access *access
	trust  authenticationtrust.Trust

	users     *externalusers.Users
	admission *admission.Chain
	webhooks  webhooks
}

func (s *Server) foundation(onStop onStop, listener net.Listener) (*foundation, error) {
	scheme := s.options.kinds.NewScheme()
	f := &foundation{scheme: scheme, codecs: serializer.NewCodecFactory(scheme)}
	var err error
	if f.config, err = options.NewGenericConfig(Name, f.codecs, listener); err != nil {
		return nil, err
	}
	config := &f.config.Config
	config.FeatureGate = utilfeature.DefaultFeatureGate
	if err = s.options.Serving.ApplyTo(config, listener); err != nil {
		return nil, err
	}
	s.options.Requests.ApplyTo(config)
	if err = s.options.Tracing.ApplyTo(config); err != nil {
		return nil, err
	}
	config.LoopbackClientConfig.ContentType = runtime.ContentTypeProtobuf
	config.LoopbackClientConfig.DisableCompression = true
	if f.client, err = kubernetes.NewForConfig(config.LoopbackClientConfig); err != nil {
		return nil, fmt.Errorf("make the loopback client: %w", err)
	}
	f.config.SharedInformerFactory = informers.NewSharedInformerFactoryWithOptions(f.client, informerResync, informers.WithTransform(withoutManagedFields))

	served := s.options.servedSchemes()
	openapi.Apply(config, "Annex", definitions(s.options.Groups, served...), served...)
	config.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	fences, err := fencing.NewMetrics(legacyregistry.Register)
	if err != nil {
		return nil, err
	}
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, config *genericapiserver.Config) http.Handler {
		api = fencing.WithTerms(api, config.Serializer, fencing.InTransaction(fences))
		return build(endLongRequests(onStop, config.LongRunningFunc, api), config)
	}

	s.rootCA = s.options.rootCA(config.SecureServing.Cert)
	if s.tokens, err = s.options.tokens(); err != nil {
		return nil, err
	}
	if f.users, err = s.externalUsers(onStop, config.APIServerID); err != nil {
		return nil, err
	}
	if f.trust, err = s.options.applyAuthentication(config, s.tokens, f.users); err != nil {
		return nil, err
	}
	if f.access, err = s.options.access(f.client, f.config.SharedInformerFactory); err != nil {
		return nil, err
	}
	config.Authorization.Authorizer, config.RuleResolver = f.access.authorizer, f.access.rules
	if err = s.options.Audit.ApplyTo(config); err != nil {
		return nil, err
	}
	s.options.Features.ApplyTo(config)
	if s.options.queues() {
		config.FlowControl = utilflowcontrol.New(f.config.SharedInformerFactory, f.client.FlowcontrolV1(),
			config.MaxRequestsInFlight+config.MaxMutatingRequestsInFlight)
	}
	if err = s.applyAdmission(f); err != nil {
		return nil, err
	}
	err = s.backend.ApplyTo(config, etcd.Storage{
		Prefix: StoragePrefix, Scheme: scheme, Codecs: f.codecs, JSON: s.options.kinds.StoredAsJSON(), EffectiveVersion: config.EffectiveVersion,
	})
	return f, err
}

// externalUsers returns who knows further users. Their issuers are asked for keys until the server is told to stop.
func (s *Server) externalUsers(onStop onStop, id string) (*externalusers.Users, error) {
	ctx, cancel := context.WithCancel(context.Background())
	onStop(cancel)
	return externalusers.New(ctx, s.options.ExternalUsers, externalusers.Server{
		ID: id, Audiences: s.options.ServiceAccounts.audiences(), Issuers: s.options.ServiceAccounts.Issuers,
	})
}

// copyFor returns the configuration for another server of the chain, with storage for the kinds of its scheme.
func (f *foundation) copyFor(backend *etcd.Backend, scheme *runtime.Scheme, codecs serializer.CodecFactory) (*genericapiserver.RecommendedConfig, error) {
	config := *f.config
	// Hooks are registered once, with the server of the native kinds, and reach the others through the chain.
	config.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	config.RESTOptionsGetter = nil
	// Health checks of the store are already among those that were copied.
	healthz, livez, readyz := config.HealthzChecks, config.LivezChecks, config.ReadyzChecks
	if err := backend.ApplyTo(&config.Config, etcd.Storage{Prefix: StoragePrefix, Scheme: scheme, Codecs: codecs, EffectiveVersion: config.EffectiveVersion}); err != nil {
		return nil, err
	}
	config.HealthzChecks, config.LivezChecks, config.ReadyzChecks = healthz, livez, readyz
	return &config, nil
}

// endLongRequests makes watches and other long requests end when the server is told to. Those of native kinds would do so by
// themselves; those that are proxied to an extension server would be waited for until that ends them.
func endLongRequests(onStop onStop, isLong request.LongRunningRequestCheck, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && isLong(r, info) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer onStop(cancel)()
			if info.Verb == "watch" {
				defer endWatch(ctx)
			}
			r = r.WithContext(ctx)
		}
		api.ServeHTTP(w, r)
	})
}

// endWatch is deferred. It makes a proxied watch that ends because the server stops, or because its client has gone, end as those of
// native kinds do. The proxy aborts it, which clients take for a broken connection and the log for an error.
func endWatch(ctx context.Context) {
	aborted := recover()
	if aborted == nil {
		return
	}
	if err, ok := aborted.(error); !ok || !errors.Is(err, http.ErrAbortHandler) || ctx.Err() == nil {
		panic(aborted) //nolint:forbidigo // the panic is not ours; it goes on
	}
}

// withoutManagedFields spares informers what no controller reads.
func withoutManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}
