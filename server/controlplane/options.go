// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
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
	Audit    options.Audit
	Features options.Features
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
	// RequestHeaderCAFile holds the authorities of front proxies, and RequestHeaderAllowedNames their names. The
	// aggregator's own certificate for extension servers is of them, too: they are told to believe its headers.
	RequestHeaderCAFile       string
	RequestHeaderAllowedNames []string
	// ProxyClientCertFile and ProxyClientKeyFile are what the aggregator shows to extension servers.
	ProxyClientCertFile, ProxyClientKeyFile string

	// Policy is roles and bindings that there are from the start, besides those of every control plane; see controllers/bootstrappolicy.
	Policy bootstrappolicy.Policy

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
		Audit:         options.NewAudit(),
		Features:      options.NewFeatures(),
		Leadership:    options.NewLeadership(),
		ExternalUsers: externalusers.NewOptions(),
		Signing:       NewSigning(),
		Gates:         gates.New(),
		EventTTL:      defaultEventTTL,
	}
}

// AddFlags adds flags under the names that a kube-apiserver has for them.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.Serving.AddFlags(fs)
	o.Audit.AddFlags(fs)
	o.Features.AddFlags(fs)
	o.Leadership.AddFlags(fs)
	o.Admission.AddFlags(fs)
	o.ServiceAccounts.AddFlags(fs)
	o.ExternalUsers.AddFlags(fs)
	o.Signing.AddFlags(fs)
	gates.AddFlag(fs, o.Gates)
	fs.DurationVar(&o.EventTTL, "event-ttl", o.EventTTL, "For how long Events are kept after they were written.")
	fs.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile,
		"File with the authorities of client certificates, in PEM. The common name is the user, the organizations are the groups; system:masters may do everything.")
	fs.StringVar(&o.RequestHeaderCAFile, "requestheader-client-ca-file", o.RequestHeaderCAFile,
		"File with the authorities of front proxies, which name users in request headers, in PEM. Extension servers are told to believe them.")
	fs.StringSliceVar(&o.RequestHeaderAllowedNames, "requestheader-allowed-names", o.RequestHeaderAllowedNames,
		"Common names that a front proxy's client certificate may have, that of --proxy-client-cert-file included.")
	fs.StringVar(&o.ProxyClientCertFile, "proxy-client-cert-file", o.ProxyClientCertFile,
		"File with the certificate that this server shows to extension servers when it passes requests on, in PEM.")
	fs.StringVar(&o.ProxyClientKeyFile, "proxy-client-key-file", o.ProxyClientKeyFile, "File with the key of --proxy-client-cert-file, in PEM.")
}

// Validate reports every mistake, files that cannot be read included.
func (o *Options) Validate() []error {
	errs := o.Serving.Validate()
	errs = append(errs, o.Audit.Validate()...)
	errs = append(errs, o.Features.Validate()...)
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
	if o.ClientCAFile == "" && o.RequestHeaderCAFile == "" && len(o.Authenticators) == 0 && o.ExternalUsers.ConfigFile == "" && o.ExternalUsers.WebhookFile == "" {
		errs = append(errs, errors.New("nobody could sign in; set --client-ca-file"))
	}
	if err := options.ValidateCAFile("client-ca-file", o.ClientCAFile); err != nil {
		errs = append(errs, err)
	}
	requestHeader := o.requestHeader()
	errs = append(errs, requestHeader.Validate()...)
	if o.ProxyClientCertFile != "" || o.ProxyClientKeyFile != "" {
		errs = append(errs, options.ValidateKeyPair("proxy-client-cert-file", o.ProxyClientCertFile, "proxy-client-key-file", o.ProxyClientKeyFile)...)
	}
	return errs
}

func (o *Options) requestHeader() options.RequestHeader {
	requestHeader := options.NewRequestHeader()
	requestHeader.ClientCAFile = o.RequestHeaderCAFile
	requestHeader.AllowedNames = o.RequestHeaderAllowedNames
	return requestHeader
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
