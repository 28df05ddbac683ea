// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"k8s.io/component-base/metrics"

	"github.com/kube-annex/annex/server/controlplane/internal/localdispatch"
	"github.com/kube-annex/annex/server/internal/admission"
	"github.com/kube-annex/annex/server/internal/authentication"
	"github.com/kube-annex/annex/server/internal/options"
)

// The types of fields of Options. NewOptions returns them with their defaults.
type (
	// Serving configures the address and the certificates of the HTTPS listener.
	Serving = options.Serving
	// Requests limits single requests.
	Requests = options.Requests
	// Audit configures the audit policy and its backends.
	Audit = options.Audit
	// Features configures profiling, priority and fairness, and the limits of concurrent requests.
	Features = options.Features
	// Tracing configures the export of traces.
	Tracing = options.Tracing
	// Leadership configures the leader election of controllers.
	Leadership = options.Leadership
	// RequestHeader configures the front proxies that may set the user in request headers.
	RequestHeader = options.RequestHeader
	// Admission selects and configures admission plugins.
	Admission = admission.Options
	// AdmissionPlugin is an additional admission plugin.
	AdmissionPlugin = admission.Plugin
	// ExternalUsers configures the issuers and the webhook that authenticate bearer tokens.
	ExternalUsers = authentication.Options
	// LocalHandlerResolver returns the handler of a service that runs in this process and is ready, or nil.
	LocalHandlerResolver = localdispatch.Resolver
)

// MetricsRegistry registers metrics, as those of k8s.io/component-base/metrics do.
type MetricsRegistry interface {
	Register(metrics.Registerable) error
	CustomRegister(metrics.StableCollector) error
}

// noMetrics is a registry that drops all metrics.
type noMetrics struct{}

// Register implements MetricsRegistry.
func (noMetrics) Register(metrics.Registerable) error { return nil }

// CustomRegister implements MetricsRegistry.
func (noMetrics) CustomRegister(metrics.StableCollector) error { return nil }
