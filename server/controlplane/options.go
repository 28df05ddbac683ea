// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/server/admission"
	"github.com/kube-annex/annex/server/controlplane/controllers/bootstrappolicy"
	"github.com/kube-annex/annex/server/controlplane/externalusers"
	"github.com/kube-annex/annex/server/controlplane/inprocess"
	"github.com/kube-annex/annex/server/gates"
	"github.com/kube-annex/annex/server/options"
)

const (
	// defaultPort is where a kube-apiserver listens, too.
	defaultPort = 6443
	// defaultEventTTL is as with a kube-apiserver.
	defaultEventTTL = time.Hour
)

// Options configure a control plane.
type Options struct {
	Serving  options.Serving
	Requests options.Requests
	Audit    options.Audit
	Features options.Features
	Tracing  options.Tracing
	// Leadership is for the controllers that run in one replica at a time. Without an Owner it is that of the embedded etcd.
	Leadership options.Leadership
	// Beside are further candidates of the process, which /healthz/leadership tells about as well. Whoever made them runs them.
	Beside []*leadership.Candidate
	// Gates are Annex's own feature gates.
	Gates featuregate.MutableVersionedFeatureGate

	// EventTTL is for how long Events are kept after they were written.
	EventTTL time.Duration
	// Without names native kinds that are not served: neither they nor anything about them is in discovery, OpenAPI and the scheme. An
	// empty Resource stands for the whole group. What needs a kind is off without it; see the package comment.
	Without []schema.GroupResource
	// Groups are kinds of one's own, which are served beside the native ones. Types that are not made for protobuf are stored as JSON.
	Groups []native.Group
	// WithoutCustomResources leaves CustomResourceDefinitions out, and WithoutAggregator APIServices.
	WithoutCustomResources, WithoutAggregator bool
	// WithoutControllers names controllers, of those that run in one replica at a time, that do not run.
	WithoutControllers []string

	// Admission says which admission plugins run. Those that need a native kind that is not served are left out.
	Admission admission.Options
	// ServiceAccounts says who vouches for service accounts.
	ServiceAccounts ServiceAccounts
	// ExternalUsers says who else knows users.
	ExternalUsers externalusers.Options
	// Signing says who issues client certificates that were asked for.
	Signing Signing
	// ClientCAFile holds the authorities of client certificates.
	ClientCAFile string
	// RequestHeader says which front proxies are believed. The aggregator's own certificate for extension servers is of them, too:
	// they are told to believe its headers.
	RequestHeader options.RequestHeader
	// AuthorizationWebhook is asked about what roles do not allow.
	AuthorizationWebhook AuthorizationWebhook
	// ProxyClientCertFile and ProxyClientKeyFile are what the aggregator shows to extension servers.
	ProxyClientCertFile, ProxyClientKeyFile string

	// Policy is roles and bindings that there are from the start, besides those of every control plane; see controllers/bootstrappolicy.
	Policy bootstrappolicy.Policy
	// FlowSchemas are kept as those that Kubernetes suggests: as they are here, until somebody changes them; see controllers/flowcontrol.
	FlowSchemas []*flowcontrolv1.FlowSchema

	// ServiceResolver finds the servers behind remote APIServices and webhooks. Without it there are none.
	ServiceResolver aggregatorapiserver.ServiceResolver
	// InProcess finds services that are in this process, which get their requests without a connection. They need ProxyClientCertFile.
	InProcess inprocess.Find
	// Authenticators and Authorizers are asked after the built-in ones.
	Authenticators []authenticator.Request
	Authorizers    []authorizer.Authorizer
}

// NewOptions returns a control plane on port 6443 of all interfaces that nobody can sign in to yet.
func NewOptions() *Options {
	return &Options{
		Serving:       options.NewServing("", net.IPv4zero, defaultPort),
		Requests:      options.NewRequests(),
		Audit:         options.NewAudit(),
		Features:      options.NewFeatures(),
		Leadership:    options.NewLeadership(),
		ExternalUsers: externalusers.NewOptions(),
		RequestHeader: options.NewRequestHeader(),
		Signing:       NewSigning(),
		Gates:         gates.New(),
		EventTTL:      defaultEventTTL,

		AuthorizationWebhook: NewAuthorizationWebhook(),
	}
}

// AddFlags adds flags under the names that a kube-apiserver has for them, and in its sections.
func (o *Options) AddFlags(sections *cliflag.NamedFlagSets) {
	o.Requests.AddFlags(sections.FlagSet("generic"))
	o.Serving.AddFlags(sections.FlagSet("secure serving"))
	o.Audit.AddFlags(sections.FlagSet("auditing"))
	o.Features.AddFlags(sections.FlagSet("features"))
	fs := sections.FlagSet("authentication")
	fs.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile,
		"File with the authorities of client certificates, in PEM. The common name is the user, the organizations are the groups; system:masters may do everything.")
	o.RequestHeader.AddFlags(fs)
	fs.Lookup("requestheader-client-ca-file").Usage = "File with the authorities of front proxies, which name users in request headers, in PEM. " +
		"Extension servers are told to believe them."
	fs.Lookup("requestheader-allowed-names").Usage = "Common names that a front proxy's client certificate may have, that of --proxy-client-cert-file included."
	o.ServiceAccounts.AddFlags(fs)
	o.ExternalUsers.AddFlags(fs)
	o.AuthorizationWebhook.AddFlags(sections.FlagSet("authorization"))
	fs = sections.FlagSet("admission")
	o.Admission.AddFlags(fs)
	plugins := o.admissionOptions()
	fs.StringSliceVar(&o.Admission.Without, "disable-admission-plugins", o.Admission.Without,
		"Admission plugins that do not run. All that are not named here do:\n"+strings.Join(plugins.Names(), ", "))
	o.Signing.AddFlags(sections.FlagSet("certificate signing"))
	o.Leadership.AddFlags(sections.FlagSet("leader election"))
	gates.AddFlag(sections.FlagSet("feature gates"), o.Gates)
	o.Tracing.AddFlags(sections.FlagSet("traces"))
	fs = sections.FlagSet("misc")
	fs.DurationVar(&o.EventTTL, "event-ttl", o.EventTTL, "For how long Events are kept after they were written.")
	fs.StringVar(&o.ProxyClientCertFile, "proxy-client-cert-file", o.ProxyClientCertFile,
		"File with the certificate that this server shows to extension servers when it passes requests on, in PEM.")
	fs.StringVar(&o.ProxyClientKeyFile, "proxy-client-key-file", o.ProxyClientKeyFile, "File with the key of --proxy-client-cert-file, in PEM.")
}

// Validate reports every mistake, files that cannot be read included.
func (o *Options) Validate() []error {
	errs := o.Serving.Validate()
	errs = append(errs, o.Requests.Validate()...)
	errs = append(errs, o.Audit.Validate()...)
	errs = append(errs, o.Features.Validate()...)
	errs = append(errs, o.Tracing.Validate()...)
	errs = append(errs, o.Leadership.Validate()...)
	plugins := o.admissionOptions()
	errs = append(errs, plugins.Validate()...)
	errs = append(errs, o.ServiceAccounts.Validate()...)
	errs = append(errs, o.ExternalUsers.Validate(o.ServiceAccounts.Issuers)...)
	errs = append(errs, o.Signing.Validate()...)
	for _, unwanted := range o.WithoutControllers {
		if names := controllerNames(); !slices.Contains(names, unwanted) {
			errs = append(errs, fmt.Errorf("there is no controller %s to do without; there are %v", unwanted, names))
		}
	}
	if o.EventTTL < time.Second {
		errs = append(errs, fmt.Errorf("--event-ttl is %s; set at least 1s", o.EventTTL))
	}
	if o.ClientCAFile == "" && o.RequestHeader.ClientCAFile == "" && len(o.Authenticators) == 0 && o.ExternalUsers.ConfigFile == "" && o.ExternalUsers.WebhookFile == "" {
		errs = append(errs, errors.New("nobody could sign in; set --client-ca-file"))
	}
	if err := options.ValidateCAFile("client-ca-file", o.ClientCAFile); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.RequestHeader.Validate()...)
	errs = append(errs, o.AuthorizationWebhook.Validate()...)
	if o.ProxyClientCertFile != "" || o.ProxyClientKeyFile != "" {
		errs = append(errs, options.ValidateKeyPair("proxy-client-cert-file", o.ProxyClientCertFile, "proxy-client-key-file", o.ProxyClientKeyFile)...)
	}
	return errs
}

// CompletedOptions are options that have been found valid; only Complete makes them.
type CompletedOptions struct {
	*completedOptions
}

type completedOptions struct {
	Options
	kinds native.Kinds
}

// Complete validates the options. The error lists every mistake.
func (o *Options) Complete() (CompletedOptions, error) {
	errs := o.Validate()
	kinds, err := native.Without(o.Without...)
	if err == nil {
		kinds, err = kinds.With(o.Groups...)
	}
	if err != nil {
		errs = append(errs, err)
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return CompletedOptions{}, err
	}
	completed := &completedOptions{Options: *o, kinds: kinds}
	if completed.ServiceResolver == nil {
		completed.ServiceResolver = noServices{}
	}
	return CompletedOptions{completed}, nil
}

// noServices is how services are resolved where nobody said how.
type noServices struct{}

func (noServices) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	return nil, fmt.Errorf("service %s/%s with port %d cannot be resolved: this control plane has no Service kind and was given no other way", namespace, name, port)
}
