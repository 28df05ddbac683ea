// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"net"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics"

	"github.com/kube-annex/annex/controllers/clusterclaims/hub"
	"github.com/kube-annex/annex/internal/listbeforewatch"
	"github.com/kube-annex/annex/registry/quantities"
	"github.com/kube-annex/annex/server/featuregating"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/internal/admission"
	"github.com/kube-annex/annex/server/internal/certificates/rotation"
	"github.com/kube-annex/annex/server/internal/options"
	"github.com/kube-annex/annex/server/openapi"
)

// DefaultPort is where the extension apiserver listens unless told otherwise.
const DefaultPort = 6444

// Options configure the extension apiserver.
type Options struct {
	Serving  options.Serving
	Requests options.Requests
	// Certificates are used where Serving has no certificate files, for the Service.
	Certificates   rotation.Options
	Service        options.Service
	Host           options.Host
	Authentication options.Authentication
	Authorization  options.Authorization
	Audit          options.Audit
	Features       options.Features
	Tracing        options.Tracing
	// Admission says which admission plugins run, beside those of Annex. Which policies and webhooks there are says the host.
	Admission admission.Options
	// ServiceResolver finds the services behind webhooks. Without it they are reached by their names in the cluster.
	ServiceResolver webhook.ServiceResolver
	// Lifecycle says what is done about features.
	Lifecycle featuregating.Options
	// Hub is where the cluster's id is reserved before the cluster joins a set.
	Hub hub.Options
	// SharesLeaseStorage says that the host keeps its Leases in the etcd of this server, so that writes of leaders can be fenced
	// exactly. It is set in code by those who run both.
	SharesLeaseStorage bool
	// OpenAPI publishes what the server serves, as those who set it in code tell it to. Nil, the default, publishes what the stored
	// Features permit.
	OpenAPI *openapi.Publisher
	// Gates are Annex's own feature gates. NewReporter has made them where other parts of the process use them, too.
	Gates featuregate.MutableVersionedFeatureGate
	// FeatureGate holds the feature gates of k8s.io/apiserver. The default is that library's DefaultFeatureGate.
	FeatureGate featuregate.FeatureGate
	// RegisterMetrics registers a metric of the server; nil drops it.
	RegisterMetrics func(metrics.Registerable) error
}

// NewOptions returns the defaults of a server that runs alone: all addresses, port 6444.
func NewOptions() *Options {
	return &Options{
		Serving:        options.NewServing("", net.IPv4zero, DefaultPort),
		Requests:       options.NewRequests(),
		Certificates:   rotation.NewOptions(),
		Service:        options.NewService(),
		Authentication: options.NewAuthentication(),
		Authorization:  options.NewAuthorization(),
		Audit:          options.NewAudit(),
		Features:       options.NewFeatures(),
		Lifecycle:      featuregating.NewOptions(),
		Gates:          gates.New(),
	}
}

// AddFlags adds all flags of the server, in the sections that a kube-apiserver has.
func (o *Options) AddFlags(sections *cliflag.NamedFlagSets) {
	o.Requests.AddFlags(sections.FlagSet("generic"))
	fs := sections.FlagSet("cluster")
	o.Service.AddFlags(fs)
	o.Host.AddFlags(fs)
	fs = sections.FlagSet("secure serving")
	o.Serving.AddFlags(fs)
	fs.Lookup("tls-cert-file").Usage = "File with the serving certificate in PEM, followed by its intermediates. It is read again when it changes. " +
		"Without it the server makes certificates by itself, renews them, and publishes their authorities in the APIServices of its Service."
	o.Certificates.AddFlags(fs)
	o.Audit.AddFlags(sections.FlagSet("auditing"))
	o.Features.AddFlags(sections.FlagSet("features"))
	o.Authentication.AddFlags(sections.FlagSet("authentication"))
	o.Authorization.AddFlags(sections.FlagSet("authorization"))
	o.Admission.AddFlags(sections.FlagSet("admission"))
	fs = sections.FlagSet("feature gates")
	gates.AddFlag(fs, o.Gates)
	o.Lifecycle.AddFlags(fs)
	o.Hub.AddFlags(sections.FlagSet("cluster identity"))
	o.Tracing.AddFlags(sections.FlagSet("traces"))
}

// Validate reports every mistake.
func (o *Options) Validate() []error {
	errs := o.Serving.Validate()
	errs = append(errs, o.Requests.Validate()...)
	errs = append(errs, o.Certificates.Validate()...)
	errs = append(errs, o.Service.Validate()...)
	errs = append(errs, o.Authentication.Validate()...)
	errs = append(errs, o.Authorization.Validate()...)
	errs = append(errs, o.Audit.Validate()...)
	errs = append(errs, o.Features.Validate()...)
	errs = append(errs, o.Tracing.Validate()...)
	plugins := o.admissionOptions()
	errs = append(errs, plugins.Validate()...)
	errs = append(errs, o.Hub.Validate()...)
	return append(errs, o.Lifecycle.Validate(o.Gates)...)
}

// CompletedOptions are valid options; only Complete returns them.
type CompletedOptions struct {
	*completedOptions
}

type completedOptions struct {
	Options
	host *rest.Config
}

// Complete validates the options and reads the host's kubeconfig. The error lists every mistake.
func (o *Options) Complete() (CompletedOptions, error) {
	if err := quantities.LimitCEL(); err != nil {
		return CompletedOptions{}, err
	}
	errs := o.Validate()
	host, err := o.Host.ClientConfig()
	if err != nil {
		errs = append(errs, err)
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return CompletedOptions{}, err
	}
	host.Wrap(watchClock())
	host.Wrap(listbeforewatch.Transport)
	return CompletedOptions{&completedOptions{Options: *o, host: host}}, nil
}
