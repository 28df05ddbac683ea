// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	apiserverproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/tracing"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
)

// filterFirst is how long the filter of deadlines gets to answer by itself.
const filterFirst = 100 * time.Millisecond

// component is the aggregator in metrics of requests that it ends itself.
const component = "aggregator"

// proxy passes requests on to the servers behind remote APIServices.
type proxy struct {
	servers remoteservers.Servers
	tracer  trace.TracerProvider
	// timeout is for how long a server may leave a long request without the beginning of an answer. Other requests end anyway.
	timeout time.Duration
	gates   featuregate.FeatureGate
}

// way is how the server of one APIService is reached. It is found anew when the APIService or the certificate has changed.
type way struct {
	last atomic.Pointer[found]
}

type found struct {
	service   *apiregistrationv1.APIService
	cert      []byte
	transport http.RoundTripper
}

func (p *proxy) transport(service *apiregistrationv1.APIService, way *way) (http.RoundTripper, error) {
	cert, _ := p.servers.Certificate()
	// Objects of an informer are never changed, only replaced.
	if last := way.last.Load(); last != nil && last.service == service && bytes.Equal(last.cert, cert) {
		return last.transport, nil
	}
	roundTripper, err := p.servers.Transport(service)
	if err != nil {
		return nil, err
	}
	way.last.Store(&found{service: service, cert: cert, transport: roundTripper})
	return roundTripper, nil
}

// pass sends the request to the APIService's server, in the name of whose it is.
func (p *proxy) pass(w http.ResponseWriter, r *http.Request, service *apiregistrationv1.APIService, way *way) {
	if !helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available) {
		fail(w, r, apierrors.NewServiceUnavailable(fmt.Sprintf("the server behind APIService %s is not available; the APIService's status says why", service.Name)))
		return
	}
	caller, ok := request.UserFrom(r.Context())
	if !ok {
		fail(w, r, apierrors.NewInternalError(errors.New("the request has no user")))
		return
	}
	roundTripper, err := p.transport(service, way)
	if err != nil {
		fail(w, r, apierrors.NewInternalError(fmt.Errorf("APIService %s: %w", service.Name, err)))
		return
	}
	location, err := p.servers.URL(service, r.URL.Path)
	if err != nil {
		klog.FromContext(r.Context()).V(2).Info("Resolving the service of an APIService", "apiService", service.Name, "reason", err.Error())
		fail(w, r, apierrors.NewServiceUnavailable(fmt.Sprintf("the service of APIService %s cannot be resolved", service.Name)))
		return
	}
	location.RawQuery = r.URL.Query().Encode()
	passed, done := apiserverproxy.NewRequestForProxy(&location, r)
	defer done()
	uid := ""
	if p.gates.Enabled(genericfeatures.RemoteRequestHeaderUID) {
		uid = caller.GetUID()
	}
	upgrade := httpstream.IsUpgradeRequest(r)
	if upgrade {
		// These are dialed for without the round tripper below.
		transport.SetAuthProxyHeaders(passed, caller.GetName(), uid, caller.GetGroups(), caller.GetExtra())
	} else {
		if err := rewind(passed); err != nil {
			fail(w, r, apierrors.NewBadRequest(err.Error()))
			return
		}
		roundTripper = tracing.WrapperFor(p.tracer)(beginning{next: roundTripper, within: p.timeout})
	}
	roundTripper = transport.NewAuthProxyRoundTripper(caller.GetName(), uid, caller.GetGroups(), caller.GetExtra(), roundTripper)
	flowcontrol.RequestDelegated(r.Context())
	handler := utilproxy.NewUpgradeAwareHandler(&location, roundTripper, true, upgrade, failed{user: r.Context()})
	// A server that redirects could send its users' requests anywhere.
	handler.RejectForwardingRedirects = true
	handler.ServeHTTP(w, passed)
}

// failed tells users that a server was not reached.
type failed struct {
	user context.Context //nolint:containedctx // that of the request as it came
}

// Error implements utilproxy.ErrorResponder.
func (f failed) Error(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(f.user.Err(), context.DeadlineExceeded) {
		// The filter that set the deadline says so by itself, but breaks the connection off if it finds an answer begun.
		<-time.After(filterFirst)
	}
	if errors.Is(r.Context().Err(), context.DeadlineExceeded) {
		fail(w, r, apierrors.NewTimeoutError("the server behind the APIService did not answer in time", 0))
		return
	}
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		err = apierrors.NewServiceUnavailable(err.Error())
	}
	fail(w, r, err)
}

func fail(w http.ResponseWriter, r *http.Request, err error) {
	version := schema.GroupVersion{}
	info, ok := request.RequestInfoFrom(r.Context())
	if ok {
		version = schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	}
	code := responsewriters.ErrorNegotiated(err, scheme.Codecs, version, w, r)
	if ok {
		endpointmetrics.RecordRequestTermination(r, info, component, code)
	}
}

// beginning ends requests that are not answered at all for too long. Watches have no other end.
type beginning struct {
	next   http.RoundTripper
	within time.Duration
}

var errNoAnswer = errors.New("the server did not begin to answer in time")

// RoundTrip returns when the answer has begun.
func (b beginning) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(b.within, func() { cancel(errNoAnswer) })
	response, err := b.next.RoundTrip(r.WithContext(ctx))
	timer.Stop()
	if cause := context.Cause(ctx); err == nil && cause != nil {
		// What a server says when it sees that nobody waits anymore is no answer.
		_ = response.Body.Close()
		err = cause
	} else if errors.Is(cause, errNoAnswer) {
		err = cause
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	response.Body = &ending{ReadCloser: response.Body, end: func() { cancel(nil) }}
	return response, nil
}

// WrappedRoundTripper lets those who look for the connections find them.
func (b beginning) WrappedRoundTripper() http.RoundTripper { return b.next }

type ending struct {
	io.ReadCloser
	end func()
}

func (e *ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}
