// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// Authentication says who is believed to be whom. What is left empty comes from the host's ConfigMap
// kube-system/extension-apiserver-authentication, and tokens are asked of the host.
type Authentication struct {
	// ClientCAFile holds the authorities of users' client certificates.
	ClientCAFile string
	// RequestHeader says which front proxies are believed.
	RequestHeader RequestHeader
	// TokenTTL is how long the host's answer about a token holds.
	TokenTTL time.Duration
}

// NewAuthentication returns options that take everything from the host.
func NewAuthentication() Authentication {
	return Authentication{RequestHeader: NewRequestHeader(), TokenTTL: 10 * time.Second}
}

// AddFlags adds all authentication flags.
func (a *Authentication) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&a.ClientCAFile, "client-ca-file", a.ClientCAFile,
		"File with the authorities of users' client certificates, in PEM. Without it the host's are used.")
	a.RequestHeader.AddFlags(fs)
	fs.DurationVar(&a.TokenTTL, "authentication-token-webhook-cache-ttl", a.TokenTTL, "How long the host's answer about a token holds.")
}

// Validate reports every mistake.
func (a *Authentication) Validate() []error {
	errs := a.RequestHeader.Validate()
	if err := ValidateCAFile("client-ca-file", a.ClientCAFile); err != nil {
		errs = append(errs, err)
	}
	if a.TokenTTL < 0 {
		errs = append(errs, fmt.Errorf("--authentication-token-webhook-cache-ttl %s is negative; give 0 or more", a.TokenTTL))
	}
	return errs
}

// NeedsHost tells whether anything is left to the host's ConfigMap.
func (a *Authentication) NeedsHost() bool {
	return a.ClientCAFile == "" || a.RequestHeader.ClientCAFile == ""
}

// HostTrust is whom the host believes: the source of what Authentication leaves empty.
type HostTrust interface {
	// ClientCAs are the authorities of users' client certificates.
	ClientCAs() dynamiccertificates.CAContentProvider
	// RequestHeader says which front proxies are believed.
	RequestHeader() *authenticatorfactory.RequestHeaderConfig
}

// ApplyTo sets up authentication by front proxy, client certificate and token. Only health paths may be read anonymously:
// requests of anonymous users otherwise come through the host, which names them system:anonymous in the request headers.
func (a *Authentication) ApplyTo(config *genericapiserver.Config, reviews authenticationclient.AuthenticationV1Interface, host HostTrust) error {
	clientCAs := host.ClientCAs()
	if a.ClientCAFile != "" {
		var err error
		if clientCAs, err = dynamiccertificates.NewDynamicCAContentFromFile("client-ca", a.ClientCAFile); err != nil {
			return fmt.Errorf("load --client-ca-file: %w", err)
		}
	}
	proxies, err := a.RequestHeader.Config()
	if err != nil {
		return err
	}
	if proxies == nil {
		proxies = host.RequestHeader()
	}
	delegating := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:  reviews,
		TokenAccessReviewTimeout: 10 * time.Second,
		WebhookRetryBackoff:      reviewBackoff(),
		CacheTTL:                 a.TokenTTL,
	}
	tokens, schemes, err := delegating.New()
	if err != nil {
		return fmt.Errorf("delegate authentication to the host: %w", err)
	}
	// The proxy comes first: its certificate says who proxies, and not who calls.
	known := group.NewAuthenticatedGroupAdder(union.New(ProxyCertificates(proxies), UserCertificates(clientCAs), tokens))
	config.Authentication.Authenticator = union.NewFailOnError(known, anonymous.NewAuthenticator(HealthOnly()))
	config.Authentication.RequestHeaderConfig = proxies
	if config.OpenAPIConfig != nil {
		config.OpenAPIConfig.SecurityDefinitions = schemes
	}
	config.SecureServing.ClientCA = dynamiccertificates.NewUnionCAContentProvider(clientCAs, proxies.CAContentProvider)
	return nil
}

// HealthOnly is where callers without any identity are let in.
func HealthOnly() []apiserver.AnonymousAuthCondition {
	var conditions []apiserver.AnonymousAuthCondition
	for _, path := range healthPaths {
		conditions = append(conditions, apiserver.AnonymousAuthCondition{Path: path})
	}
	return conditions
}
