// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/featuregate"
	generatedopenapi "github.com/kube-annex/annex/generated/openapi"
	multiclusterregistry "github.com/kube-annex/annex/registry/multicluster"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/featuregating"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/internal/authentication"
	"github.com/kube-annex/annex/server/internal/certificates/rotation"
	"github.com/kube-annex/annex/server/internal/filters"
	"github.com/kube-annex/annex/server/internal/filters/fencing"
	"github.com/kube-annex/annex/server/internal/genericserver"
	"github.com/kube-annex/annex/server/openapi"
)

// informerResync is the resync period of the informers of the host's objects.
const informerResync = 10 * time.Minute

// config is the configuration of one extension apiserver.
type config struct {
	generic genericapiserver.CompletedConfig
	options CompletedOptions
	scheme  *runtime.Scheme
	codecs  serializer.CodecFactory
	host    kubernetes.Interface
	// instance identifies this replica.
	instance string
	reporter *featuregate.Gate
	gating   *featuregating.Gating
	joining  multiclusterregistry.Joining
	// background runs until the server has drained.
	background []func(context.Context)
}

// newConfig applies the options. It starts nothing and sends no requests.
func newConfig(o CompletedOptions, backend *etcd.Backend, listener net.Listener) (*config, error) {
	scheme := newScheme()
	codecs := serializer.NewCodecFactory(scheme)
	host, err := kubernetes.NewForConfig(o.host)
	if err != nil {
		return nil, fmt.Errorf("create a client of the host: %w", err)
	}
	generic, err := newGenericConfig(o, scheme, codecs, host, listener)
	if err != nil {
		return nil, err
	}
	serving, err := o.applyServing(generic, listener)
	if err != nil {
		return nil, err
	}
	access, err := o.applyAccess(generic, host)
	if err != nil {
		return nil, err
	}
	requests, err := o.applyRequests(generic, host)
	if err != nil {
		return nil, err
	}
	instance, err := instanceID(backend, listener)
	if err != nil {
		return nil, err
	}
	reporter, ok := o.Gates.(*featuregate.Gate)
	if !ok {
		if reporter, err = featuregating.NewReporter(o.Gates, gated(), Name, instance); err != nil {
			return nil, err
		}
	}
	gating := featuregating.NewGating(gates.Namespace, gated(), configured(reporter), o.OpenAPI)
	gating.ApplyTo(&generic.Config)
	if err = o.applyFilters(&generic.Config, host, gating); err != nil {
		return nil, err
	}
	announcer, err := openapi.NewAnnouncer(o.host, gating.Publisher)
	if err != nil {
		return nil, err
	}
	joining, err := o.joining(host.CoreV1().Namespaces())
	if err != nil {
		return nil, err
	}
	if err = backend.ApplyTo(&generic.Config, etcd.Storage{
		Prefix: StoragePrefix, Scheme: scheme, Codecs: codecs, EffectiveVersion: generic.EffectiveVersion,
	}); err != nil {
		return nil, err
	}
	return &config{
		generic: generic.Complete(), options: o, scheme: scheme, codecs: codecs, host: host, instance: instance, reporter: reporter, gating: gating, joining: joining,
		background: slices.Concat(serving, access, requests, []func(context.Context){announcer.Run}),
	}, nil
}

func newGenericConfig(o CompletedOptions, scheme *runtime.Scheme, codecs serializer.CodecFactory, host kubernetes.Interface, listener net.Listener) (*genericapiserver.RecommendedConfig, error) {
	generic, err := genericserver.NewConfig(Name, codecs, listener, o.FeatureGate)
	if err != nil {
		return nil, err
	}
	generic.ClientConfig = o.host
	generic.SharedInformerFactory = informers.NewSharedInformerFactory(host, informerResync)
	openapi.Apply(&generic.Config, "Annex", generatedopenapi.GetOpenAPIDefinitions, scheme)
	return generic, nil
}

// applyServing sets the serving certificate and the loopback client. It returns the background work of the certificate.
func (o *completedOptions) applyServing(generic *genericapiserver.RecommendedConfig, listener net.Listener) (background []func(context.Context), err error) {
	serving := o.Serving
	if serving.CertFile == "" && serving.Certificate == nil {
		certificate, err := rotation.New(o.Certificates, o.Service, o.host, APIServiceNames())
		if err != nil {
			return nil, err
		}
		serving.Certificate = certificate
		generic.AddReadyzChecks(healthz.NamedCheck("serving-certificate", certificate.Check))
		background = append(background, certificate.Run)
	}
	return background, serving.ApplyTo(&generic.Config, listener)
}

// applyAccess sets authentication, authorization and audit.
func (o *completedOptions) applyAccess(generic *genericapiserver.RecommendedConfig, host kubernetes.Interface) (background []func(context.Context), err error) {
	trust := authentication.NewHostTrust(host, o.Authentication.RequestHeader.AllowAnyName)
	if err = o.Authentication.ApplyTo(&generic.Config, host.AuthenticationV1(), trust); err != nil {
		return nil, err
	}
	if o.Authentication.NeedsHost() {
		generic.AddReadyzChecks(healthz.NamedCheck("host-authentication", trust.Check))
		background = append(background, trust.Run)
	}
	if err = o.Authorization.ApplyTo(&generic.Config, host.AuthorizationV1()); err != nil {
		return nil, err
	}
	return background, o.Audit.ApplyTo(&generic.Config)
}

// applyRequests sets limits of requests, tracing, flow control and admission. Tracing and admission need the loopback client.
func (o *completedOptions) applyRequests(generic *genericapiserver.RecommendedConfig, host kubernetes.Interface) (background []func(context.Context), err error) {
	o.Requests.ApplyTo(&generic.Config)
	if err = o.Tracing.ApplyTo(&generic.Config); err != nil {
		return nil, err
	}
	o.Features.ApplyTo(&generic.Config)
	if o.Features.PriorityAndFairness {
		queues := newFlowControl(host, generic.MaxRequestsInFlight, generic.MaxMutatingRequestsInFlight)
		generic.FlowControl = queues.filter
		generic.AddReadyzChecks(healthz.NamedCheck("flow-schemas", queues.check))
		background = append(background, queues.Run)
	}
	chain, err := o.applyAdmission(generic, host)
	if err != nil {
		return nil, err
	}
	return append(background, chain.Run), nil
}

// applyFilters sets the handler chain. Late writes of leaders are refused exactly if the Leases are in the server's etcd, else after a read
// of the Lease from the host.
func (o *completedOptions) applyFilters(config *genericapiserver.Config, host kubernetes.Interface, gating *featuregating.Gating) error {
	metrics, err := fencing.NewMetrics(o.RegisterMetrics)
	if err != nil {
		return err
	}
	check := fencing.AskHost(host.CoordinationV1(), metrics)
	if o.SharesLeaseStorage {
		check = fencing.InTransaction(metrics)
	}
	filters.Extension{Fence: check, WithGatedResources: gating.WithGatedResources}.ApplyTo(config)
	return nil
}
