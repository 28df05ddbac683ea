// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inprocess hands requests for the kinds of a server in this very process to its handler, in place of a connection to it.
//
// The shortcut stands in front of the aggregator's proxy, behind authentication, audit, priority and authorization of the control plane.
// It takes what the proxy would send to the service of an available APIService, where that service is in this process, and changes nothing
// else of what happens: the server's handler gets the request with the identity of the user in headers and with the front proxy's
// certificate beside them, as if it had come over TLS, and authenticates, authorizes, audits and queues it by its own rules. Nothing
// that the control plane knows of the request reaches it in any other way. What is saved is TLS and HTTP/2, twice.
//
// Discovery, OpenAPI documents and upgrades go over the connection, as do all requests while the server is not ready.
package inprocess

import (
	"context"
	"net/http"
	"sync/atomic"

	"go.opentelemetry.io/otel/propagation"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/tracing"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// Find returns the handler of a service that is in this process and ready, or nil.
type Find func(namespace, name string, port int32) http.Handler

// Shortcut is the way to the servers of this process.
type Shortcut struct {
	find     Find
	identity *Identity
	services atomic.Pointer[listers.APIServiceLister]
}

// New returns a shortcut that takes nothing before it Follows APIServices. With identity it shows itself to the servers.
func New(find Find, identity *Identity) *Shortcut {
	return &Shortcut{find: find, identity: identity}
}

// Follow says where the APIServices are.
func (s *Shortcut) Follow(services listers.APIServiceLister) { s.services.Store(&services) }

// InFrontOf returns a handler that takes the shortcut where there is one, and leaves other requests to next.
func (s *Shortcut) InFrontOf(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, ok := request.UserFrom(r.Context())
		server := s.serverOf(r)
		if server == nil || !ok {
			next.ServeHTTP(w, r)
			return
		}
		passed, done, err := s.pass(r, caller)
		if err != nil {
			// The connection would fail at the same; the aggregator says so as for every server.
			next.ServeHTTP(w, r)
			return
		}
		defer done()
		flowcontrol.RequestDelegated(r.Context())
		server.ServeHTTP(w, passed)
	})
}

// serverOf returns who serves the kind that the request is about, if that is a server of this process.
func (s *Shortcut) serverOf(r *http.Request) http.Handler {
	info, ok := request.RequestInfoFrom(r.Context())
	services := s.services.Load()
	if !ok || services == nil || !info.IsResourceRequest || info.APIGroup == "" || httpstream.IsUpgradeRequest(r) {
		return nil
	}
	service, err := (*services).Get(info.APIVersion + "." + info.APIGroup)
	if err != nil || service.Spec.Service == nil || service.Spec.Service.Port == nil {
		return nil
	}
	if !helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available) {
		return nil
	}
	return s.find(service.Spec.Service.Namespace, service.Spec.Service.Name, *service.Spec.Service.Port)
}

// pass returns the request as the server would get it over a connection. It ends when the user's does, or done is called.
func (s *Shortcut) pass(r *http.Request, caller user.Info) (_ *http.Request, done func(), err error) {
	connection, err := s.identity.connection()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := ownContext(r.Context())
	passed := r.WithContext(ctx)
	passed.Header = r.Header.Clone()
	passed.TLS = connection
	if id, ok := audit.AuditIDFrom(r.Context()); ok {
		passed.Header.Set("Audit-ID", string(id))
	}
	tracing.Propagators().Inject(r.Context(), propagation.HeaderCarrier(passed.Header))
	uid := ""
	if utilfeature.DefaultFeatureGate.Enabled(genericfeatures.RemoteRequestHeaderUID) {
		uid = caller.GetUID()
	}
	transport.SetAuthProxyHeaders(passed, caller.GetName(), uid, caller.GetGroups(), caller.GetExtra())
	return passed, cancel, nil
}

// ownContext returns a context that ends when the user's does, or is cancelled, and has nothing of what the control plane keeps in that: the
// server must not mistake who is authenticated, what is audited and how a path was read for what it has found out by itself.
func ownContext(users context.Context) (_ context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(context.Background())
	forget := context.AfterFunc(users, func() { end(context.Cause(users)) })
	return ctx, func() {
		forget()
		end(nil)
	}
}
