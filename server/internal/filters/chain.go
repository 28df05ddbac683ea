// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/kube-annex/annex/server/internal/filters/fencing"
	"github.com/kube-annex/annex/server/internal/filters/requestbody"
)

// The functions chain list the filters of each server from the innermost, closest to the API, to the outermost: the last one sees a request
// first.

// ControlPlane holds what the filters of a control plane need.
type ControlPlane struct {
	// OnStop calls functions when the server begins to stop.
	OnStop OnStop
	// Fence checks the terms of leadership that writes name.
	Fence fencing.Check
	// WithLocalDispatch is nil if no extension server runs in this process.
	WithLocalDispatch func(handler http.Handler) http.Handler
}

// ApplyTo sets the handler chain. Servers that others delegate to ignore it.
func (c ControlPlane) ApplyTo(config *genericapiserver.Config) {
	config.BuildHandlerChainFunc = c.chain
}

func (c ControlPlane) chain(handler http.Handler, config *genericapiserver.Config) http.Handler {
	// Requests for resources of an extension server in this process skip the aggregator's proxy, and nothing else.
	if c.WithLocalDispatch != nil {
		handler = c.WithLocalDispatch(handler)
	}
	// Refuses writes of a former leader. After authorization: a client without the right to write learns nothing about Leases.
	handler = fencing.WithTerms(handler, config.Serializer, c.Fence)
	// Ends watches on shutdown, those through the proxy included.
	handler = WithLongRunningTermination(handler, config.LongRunningFunc, c.OnStop)
	// Close to the handler that writes: fewer writes pass the filters outside.
	handler = WithBufferedList(handler)
	// Limits the time and the cost of request bodies. After authorization: it reads whole bodies of patches and of resources with quantities.
	handler = requestbody.WithLimits(handler, config.Serializer, config.MaxRequestBodyBytes)
	// Authorization, flow control, impersonation, audit, authentication, timeouts and more.
	handler = withUpstream(handler, config)
	// Moves clients to other servers in the second half of the shutdown delay.
	handler = WithGoAwayOnShutdown(handler, config.ShutdownInitiatedNotify(), config.ShutdownDelayDuration)
	// Adds a reason to 401. Outside of authentication, which removes the credentials from the request.
	handler = WithUnauthorizedReason(handler, config.Serializer, time.Now)
	// 503 instead of 401 if an issuer of tokens cannot be reached, with a reason or without.
	return WithAuthenticatorUnavailable(handler)
}

// Extension holds what the filters of the extension apiserver need.
type Extension struct {
	// Fence checks the terms of leadership that writes name.
	Fence fencing.Check
	// WithGatedResources answers 404 for resources whose features are off.
	WithGatedResources func(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler
}

// ApplyTo sets the handler chain.
func (e Extension) ApplyTo(config *genericapiserver.Config) { config.BuildHandlerChainFunc = e.chain }

func (e Extension) chain(handler http.Handler, config *genericapiserver.Config) http.Handler {
	// Hides resources of features that are off, in discovery as well. After authorization, like the 404 of an unknown resource.
	handler = e.WithGatedResources(handler, config.Serializer)
	// Refuses writes of a former leader, as above.
	handler = fencing.WithTerms(handler, config.Serializer, e.Fence)
	// Close to the handler that writes, as above.
	handler = WithBufferedList(handler)
	// Limits the time and the cost of request bodies, as above.
	handler = requestbody.WithLimits(handler, config.Serializer, config.MaxRequestBodyBytes)
	// As above. Flow control is FlowControl, which limits by number until the host's flow schemas are known.
	handler = withUpstream(handler, config)
	// Moves clients to other servers in the second half of the shutdown delay. The host's aggregator is such a client.
	handler = WithGoAwayOnShutdown(handler, config.ShutdownInitiatedNotify(), config.ShutdownDelayDuration)
	// Adds a reason to 401, as above.
	handler = WithUnauthorizedReason(handler, config.Serializer, time.Now)
	// 503 instead of 500 if the host does not answer whether a request is allowed.
	return WithAuthorizerUnavailable(handler)
}

// withUpstream adds the filters of every generic apiserver. They are called as one, since some need signals that only the generic apiserver
// has. From the innermost to the outermost:
//
//   - WithAuthorization
//   - WithPriorityAndFairness, or WithMaxInFlightLimit if it is disabled
//   - WithConstrainedImpersonation, or WithImpersonation if the feature is off
//   - WithAudit
//   - WithFailedAuthenticationAudit, for requests that the authenticator rejects
//   - WithTracing
//   - WithAuthentication
//   - WithCORS
//   - WithWarningRecorder
//   - WithTimeoutForNonLongRunningRequests
//   - WithRequestDeadline
//   - WithWaitGroup
//   - WithWatchTerminationDuringShutdown
//   - WithProbabilisticGoaway, with --goaway-chance
//   - WithCacheControl
//   - WithHSTS
//   - WithRetryAfter, with --shutdown-send-retry-after
//   - WithHTTPLogging
//   - WithLatencyTrackers
//   - WithRoutine, if the feature is on
//   - WithRequestInfo
//   - WithRequestReceivedTimestamp
//   - WithMuxAndDiscoveryComplete
//   - WithPanicRecovery
//   - WithAuditInit
func withUpstream(handler http.Handler, config *genericapiserver.Config) http.Handler {
	return genericapiserver.DefaultBuildHandlerChain(handler, config)
}
