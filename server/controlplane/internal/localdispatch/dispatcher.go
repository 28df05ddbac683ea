// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localdispatch passes requests for resources of a server in the same process to its handler, without a connection.
//
// The filter runs before the aggregator's proxy, and after authentication, audit, priority and fairness, and authorization of the control plane.
// It handles requests that the proxy would send to the service of an available APIService, if that service is in this process. The server's
// handler receives the request as over TLS: with the user in headers, and with the client certificate of the front proxy. It authenticates,
// authorizes, audits and queues the request by its own rules. Its context has no values of the control plane. This saves TLS and HTTP/2, twice.
//
// Discovery, OpenAPI documents, upgrades, and all requests while the server is not ready use the connection.
package localdispatch

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/tracing"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// Resolver returns the handler of a service that runs in this process and is ready, or nil.
type Resolver func(namespace, name string, port int32) http.Handler

// Dispatcher dispatches requests to the servers of this process.
type Dispatcher struct {
	resolve  Resolver
	identity *Identity
	services listers.APIServiceLister
	gates    featuregate.FeatureGate
}

// New returns a dispatcher for the services of available APIServices. It authenticates to their servers with identity.
func New(resolve Resolver, identity *Identity, services listers.APIServiceLister, gates featuregate.FeatureGate) *Dispatcher {
	return &Dispatcher{resolve: resolve, identity: identity, services: services, gates: gates}
}

// WithLocalDispatch returns a handler that dispatches requests for servers of this process, and passes other requests to next.
func (d *Dispatcher) WithLocalDispatch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, ok := request.UserFrom(r.Context())
		server := d.localServer(r)
		if server == nil || !ok {
			next.ServeHTTP(w, r)
			return
		}
		passed, done, err := d.delegatedRequest(r, caller)
		if err != nil {
			// The proxy fails with the same error and reports it.
			next.ServeHTTP(w, r)
			return
		}
		defer done()
		flowcontrol.RequestDelegated(r.Context())
		server.ServeHTTP(w, passed)
	})
}

// localServer returns the handler of the requested resource, or nil if no server of this process has it.
func (d *Dispatcher) localServer(r *http.Request) http.Handler {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest || info.APIGroup == "" || httpstream.IsUpgradeRequest(r) {
		return nil
	}
	service, err := d.services.Get(info.APIVersion + "." + info.APIGroup)
	if err != nil || service.Spec.Service == nil || service.Spec.Service.Port == nil {
		return nil
	}
	if !helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available) {
		return nil
	}
	return d.resolve(service.Spec.Service.Namespace, service.Spec.Service.Name, *service.Spec.Service.Port)
}

// delegatedRequest returns the request as the server would receive it over a connection. It ends with the request of the user, or when done is
// called.
func (d *Dispatcher) delegatedRequest(r *http.Request, caller user.Info) (_ *http.Request, done func(), err error) {
	connection, err := d.identity.connection()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := detachedContext(r.Context())
	passed := r.WithContext(ctx)
	passed.Header = r.Header.Clone()
	passed.TLS = connection
	if id, ok := audit.AuditIDFrom(r.Context()); ok {
		passed.Header.Set("Audit-ID", string(id))
	}
	tracing.Propagators().Inject(r.Context(), propagation.HeaderCarrier(passed.Header))
	uid := ""
	if d.gates.Enabled(genericfeatures.RemoteRequestHeaderUID) {
		uid = caller.GetUID()
	}
	transport.SetAuthProxyHeaders(passed, caller.GetName(), uid, caller.GetGroups(), caller.GetExtra())
	return passed, cancel, nil
}

// detachedContext returns a context that ends with the context of the user and has none of its values: the server must not take the
// control plane's user, audit event and request info for its own.
func detachedContext(users context.Context) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(context.Background())
	forget := context.AfterFunc(users, func() { end(context.Cause(users)) })
	return ctx, func() {
		forget()
		end(nil)
	}
}
