// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/kube-annex/annex/server/internal/authentication"
)

// Authentication configures authentication of users. The defaults of empty fields are in the host's ConfigMap
// kube-system/extension-apiserver-authentication. The host authenticates tokens, by TokenReview.
type Authentication struct {
	// ClientCAFile contains the authorities of users' client certificates.
	ClientCAFile string
	// RequestHeader configures front proxies.
	RequestHeader RequestHeader
	// TokenTTL is the time for which responses of the host about a token are cached.
	TokenTTL time.Duration
}

// NewAuthentication returns options that use the host's configuration.
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

// Validate returns all errors.
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

// NeedsHost reports whether the host's ConfigMap is used.
func (a *Authentication) NeedsHost() bool {
	return a.ClientCAFile == "" || a.RequestHeader.ClientCAFile == ""
}

// ApplyTo sets up authentication by front proxy, client certificate and token. Anonymous requests reach only the health paths: other
// requests of anonymous users come through the host, which names them system:anonymous in the request headers.
func (a *Authentication) ApplyTo(config *genericapiserver.Config, reviews authenticationclient.AuthenticationV1Interface, host *authentication.HostTrust) error {
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
	// The front proxy comes first: its certificate is not that of the user.
	authenticated := group.NewAuthenticatedGroupAdder(union.New(authentication.NewFrontProxy(proxies), authentication.NewClientCertificates(clientCAs), tokens))
	config.Authentication.Authenticator = union.NewFailOnError(authenticated, anonymous.NewAuthenticator(authentication.HealthOnly()))
	if a.NeedsHost() {
		config.Authentication.Authenticator = host.Await(config.Authentication.Authenticator)
	}
	config.Authentication.RequestHeaderConfig = proxies
	if config.OpenAPIConfig != nil {
		config.OpenAPIConfig.SecurityDefinitions = schemes
	}
	config.SecureServing.ClientCA = dynamiccertificates.NewUnionCAContentProvider(clientCAs, proxies.CAContentProvider)
	return nil
}
