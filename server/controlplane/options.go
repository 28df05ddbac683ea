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

	"github.com/spf13/pflag"
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
	"github.com/kube-annex/annex/registry/quantities"
	"github.com/kube-annex/annex/server/controlplane/bootstrappolicy"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/internal/authentication"
	"github.com/kube-annex/annex/server/internal/options"
)

const (
	// defaultPort and defaultEventTTL are those of kube-apiserver.
	defaultPort     = 6443
	defaultEventTTL = time.Hour
	// defaultQuotaSyncPeriod is that of kube-controller-manager, and longer than any request.
	defaultQuotaSyncPeriod = 5 * time.Minute
)

// Options configures a control plane.
type Options struct {
	Serving  Serving
	Requests Requests
	Audit    Audit
	Features Features
	Tracing  Tracing
	// Leadership configures the controllers that run in the leader only. The default StoreID is that of the embedded etcd.
	Leadership Leadership
	// AdditionalElectors are electors of the same process that /healthz/leadership reports. The caller runs them.
	AdditionalElectors []*leadership.Elector
	// Gates are the feature gates of Annex.
	Gates featuregate.MutableVersionedFeatureGate
	// FeatureGate holds the feature gates of k8s.io/apiserver. The default is that library's DefaultFeatureGate.
	FeatureGate featuregate.FeatureGate
	// Metrics registers the metrics of the control plane. The default drops them.
	Metrics MetricsRegistry

	// EventTTL is the time for which Events are kept after their last write.
	EventTTL time.Duration
	// QuotaSyncPeriod is the time after which a charge to a ResourceQuota is reverted if its object is not stored.
	QuotaSyncPeriod time.Duration
	// DisabledResources lists built-in resources that are not served, and are not in discovery, OpenAPI and the scheme. An empty Resource
	// disables the whole group. Parts of the server that need a disabled resource are off; see the package comment.
	DisabledResources []schema.GroupResource
	// AdditionalGroups are served beside the built-in ones. Types without protobuf are stored as JSON.
	AdditionalGroups []native.Group
	// DisableCustomResources disables CustomResourceDefinitions, and DisableAggregator APIServices.
	DisableCustomResources, DisableAggregator bool
	// DisabledControllers lists controllers that do not run, of those that run in the leader only.
	DisabledControllers []string

	// Admission selects admission plugins. Plugins that need a disabled resource are off.
	Admission Admission
	// ServiceAccounts configures the tokens of service accounts.
	ServiceAccounts ServiceAccounts
	// ExternalUsers configures the authentication of users by external issuers and webhooks.
	ExternalUsers ExternalUsers
	// Signing configures the signer of CertificateSigningRequests.
	Signing Signing
	// ClientCAFile holds the certificate authorities of clients.
	ClientCAFile string
	// RequestHeader configures trusted front proxies. It has to trust ProxyClientCertFile too: extension servers read the same configuration.
	RequestHeader RequestHeader
	// AuthorizationWebhook authorizes requests that no role allows.
	AuthorizationWebhook AuthorizationWebhook
	// ProxyClientCertFile and ProxyClientKeyFile hold the client certificate of the aggregator for extension servers.
	ProxyClientCertFile, ProxyClientKeyFile string

	// Policy holds roles and bindings that are created at start, in addition to those of every control plane.
	Policy bootstrappolicy.Policy
	// FlowSchemas are created, and kept as the suggested ones of Kubernetes: until a user changes them.
	FlowSchemas []*flowcontrolv1.FlowSchema

	// ServiceResolver resolves the services of remote APIServices and webhooks. Without it none can be resolved.
	ServiceResolver aggregatorapiserver.ServiceResolver
	// LocalDispatch returns the handlers of services in this process, which receive requests without a connection. It needs ProxyClientCertFile.
	LocalDispatch LocalHandlerResolver
	// Authenticators and Authorizers are called after the built-in ones.
	Authenticators []authenticator.Request
	Authorizers    []authorizer.Authorizer
}

// NewOptions returns options for port 6443 of all interfaces, without any authenticator.
func NewOptions() *Options {
	return &Options{
		Serving:       options.NewServing("", net.IPv4zero, defaultPort),
		Requests:      options.NewRequests(),
		Audit:         options.NewAudit(),
		Features:      options.NewFeatures(),
		Leadership:    options.NewLeadership(),
		ExternalUsers: authentication.NewOptions(),
		RequestHeader: options.NewRequestHeader(),
		Signing:       NewSigning(),
		Gates:         gates.New(),
		EventTTL:      defaultEventTTL,

		AuthorizationWebhook: NewAuthorizationWebhook(),
		QuotaSyncPeriod:      defaultQuotaSyncPeriod,
	}
}

// AddFlags adds flags with the names and sections of kube-apiserver.
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
	fs.StringSliceVar(&o.Admission.DisabledPlugins, "disable-admission-plugins", o.Admission.DisabledPlugins,
		"Admission plugins that do not run. All that are not named here do:\n"+strings.Join(plugins.Names(), ", "))
	o.Signing.AddFlags(sections.FlagSet("certificate signing"))
	o.Leadership.AddFlags(sections.FlagSet("leader election"))
	gates.AddFlag(sections.FlagSet("feature gates"), o.Gates)
	o.Tracing.AddFlags(sections.FlagSet("traces"))
	fs = sections.FlagSet("misc")
	o.AddQuotaFlag(fs)
	fs.DurationVar(&o.EventTTL, "event-ttl", o.EventTTL, "For how long Events are kept after they were written.")
	fs.StringVar(&o.ProxyClientCertFile, "proxy-client-cert-file", o.ProxyClientCertFile,
		"File with the certificate that this server shows to extension servers when it passes requests on, in PEM.")
	fs.StringVar(&o.ProxyClientKeyFile, "proxy-client-key-file", o.ProxyClientKeyFile, "File with the key of --proxy-client-cert-file, in PEM.")
}

// AddQuotaFlag adds the flag of the quota controller, with the name in kube-controller-manager.
func (o *Options) AddQuotaFlag(fs *pflag.FlagSet) {
	fs.DurationVar(&o.QuotaSyncPeriod, "resource-quota-sync-period", o.QuotaSyncPeriod,
		"Time after which a charge to a ResourceQuota is taken back if its object is not stored. Must be longer than creations take.")
}

// Validate returns all errors, including those of files.
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
	for _, unwanted := range o.DisabledControllers {
		if names := leaderControllerNames(); !slices.Contains(names, unwanted) {
			errs = append(errs, fmt.Errorf("there is no controller %s to do without; there are %v", unwanted, names))
		}
	}
	if o.QuotaSyncPeriod < time.Second {
		errs = append(errs, fmt.Errorf("--resource-quota-sync-period is %s; set at least 1s", o.QuotaSyncPeriod))
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

// CompletedOptions are valid options; only Complete returns them.
type CompletedOptions struct {
	*completedOptions
}

type completedOptions struct {
	Options
	kinds native.Kinds
}

// Complete validates the options and sets defaults. The error lists all mistakes.
func (o *Options) Complete() (CompletedOptions, error) {
	if err := quantities.LimitCEL(); err != nil {
		return CompletedOptions{}, err
	}
	errs := o.Validate()
	kinds, err := native.WithoutResources(o.DisabledResources...)
	if err == nil {
		kinds, err = kinds.WithGroups(o.AdditionalGroups...)
	}
	if err != nil {
		errs = append(errs, err)
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return CompletedOptions{}, err
	}
	completed := *o
	if completed.ServiceResolver == nil {
		completed.ServiceResolver = noServices{}
	}
	if completed.Metrics == nil {
		completed.Metrics = noMetrics{}
	}
	return CompletedOptions{&completedOptions{Options: completed, kinds: kinds}}, nil
}

// noServices resolves no services.
type noServices struct{}

// ResolveEndpoint implements aggregatorapiserver.ServiceResolver.
func (noServices) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	return nil, fmt.Errorf("service %s/%s with port %d cannot be resolved: this control plane has no Service kind and was given no other way", namespace, name, port)
}
