// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	nativeauthentication "github.com/kube-annex/annex/registry/native/authentication"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/clusterauthenticationtrust"
	"github.com/kube-annex/annex/server/controlplane/internal/serviceaccounts"
	"github.com/kube-annex/annex/server/internal/authentication"
	"github.com/kube-annex/annex/server/internal/filters"
)

// authenticationConfig authenticates callers.
type authenticationConfig struct {
	// tokens issues and authenticates tokens of service accounts; nil if there are none.
	tokens *serviceaccounts.Tokens
	users  *authentication.Users
	// trust is published for extension servers.
	trust clusterauthenticationtrust.Trust
}

// newAuthentication applies the options to the configuration. Keys of external issuers are loaded until the server begins to stop.
func newAuthentication(o CompletedOptions, config *genericapiserver.Config, onStop filters.OnStop) (*authenticationConfig, error) {
	tokens, err := o.tokens()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	onStop(cancel)
	users, err := authentication.New(ctx, o.ExternalUsers, authentication.Server{
		ID: config.APIServerID, Audiences: o.ServiceAccounts.audiences(), Issuers: o.ServiceAccounts.Issuers,
	})
	if err != nil {
		return nil, err
	}
	trust, err := o.applyAuthentication(config, tokens, users)
	if err != nil {
		return nil, err
	}
	return &authenticationConfig{tokens: tokens, users: users, trust: trust}, nil
}

// certificateAuthenticators returns the authenticators of client certificates, and the trust to publish for extension servers. The listener
// requests certificates of users and of front proxies; the authenticators tell them apart.
func (o *completedOptions) certificateAuthenticators(config *genericapiserver.Config) ([]authenticator.Request, clusterauthenticationtrust.Trust, error) {
	none := clusterauthenticationtrust.Trust{}
	var authenticators []authenticator.Request
	headers, err := o.RequestHeader.Config()
	if err != nil {
		return nil, none, err
	}
	var published *authenticatorfactory.RequestHeaderConfig
	// The proxy comes first: its certificate identifies the proxy, not the user.
	if headers != nil {
		published = publishedHeaders(headers)
		config.Authentication.RequestHeaderConfig = headers
		if err = config.Authentication.ApplyClientCert(headers.CAContentProvider, config.SecureServing); err != nil {
			return nil, none, fmt.Errorf("accept certificates of --requestheader-client-ca-file: %w", err)
		}
		authenticators = append(authenticators, authentication.NewFrontProxy(headers))
	}
	if o.ClientCAFile == "" {
		return authenticators, clusterauthenticationtrust.Trust{RequestHeader: published}, nil
	}
	clientCA, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", o.ClientCAFile)
	if err != nil {
		return nil, none, fmt.Errorf("read --client-ca-file: %w", err)
	}
	if err = config.Authentication.ApplyClientCert(clientCA, config.SecureServing); err != nil {
		return nil, none, fmt.Errorf("accept certificates of --client-ca-file: %w", err)
	}
	authenticators = append(authenticators, authentication.NewClientCertificates(clientCA))
	return authenticators, clusterauthenticationtrust.Trust{ClientCA: clientCA, RequestHeader: published}, nil
}

// applyAuthentication configures the authenticators and returns the trust to publish for extension servers. Without an identity only the health
// paths are served.
func (o *completedOptions) applyAuthentication(config *genericapiserver.Config, tokens *serviceaccounts.Tokens, users *authentication.Users) (clusterauthenticationtrust.Trust, error) {
	authenticators, trust, err := o.certificateAuthenticators(config)
	if err != nil {
		return trust, err
	}
	// Service accounts come first: other authenticators may send a request for each unknown token.
	bearers := tokenunion.New(users)
	if tokens != nil {
		bearers = tokenunion.New(tokens, users)
	}
	authenticators = append(authenticators, bearertoken.New(bearers), websocket.NewProtocolAuthenticator(bearers))
	authenticators = append(authenticators, o.Authenticators...)
	config.Authentication.APIAudiences = o.ServiceAccounts.audiences()
	known := group.NewAuthenticatedGroupAdder(withAudiences(config.Authentication.APIAudiences, union.New(authenticators...)))
	config.Authentication.Authenticator = known
	if anonymously := anonymousConfig(users); anonymously.Enabled {
		config.Authentication.Authenticator = union.NewFailOnError(known, anonymous.NewAuthenticator(anonymously.Conditions))
	}
	config.Authentication.Authenticator = filters.ReportUnavailable(config.Authentication.Authenticator, nativeauthentication.IsUnavailable)
	return trust, nil
}

// publishedHeaders adds the headers of our aggregator to the configured ones. The aggregator always sets or removes X-Remote-Uid, so
// extension servers can trust it. Other front proxies may pass on the value of a client, so this server does not trust it.
func publishedHeaders(configured *authenticatorfactory.RequestHeaderConfig) *authenticatorfactory.RequestHeaderConfig {
	and := func(provider headerrequest.StringSliceProvider, own string) headerrequest.StaticStringSlice {
		if slices.ContainsFunc(provider.Value(), func(header string) bool { return strings.EqualFold(header, own) }) {
			return provider.Value()
		}
		return append(slices.Clone(provider.Value()), own)
	}
	published := *configured
	published.UsernameHeaders = and(configured.UsernameHeaders, "X-Remote-User")
	published.UIDHeaders = and(configured.UIDHeaders, "X-Remote-Uid")
	published.GroupHeaders = and(configured.GroupHeaders, "X-Remote-Group")
	published.ExtraHeaderPrefixes = and(configured.ExtraHeaderPrefixes, "X-Remote-Extra-")
	return &published
}

// withAudiences restricts identities without audiences, such as those of certificates, to the given audiences, if there are any.
func withAudiences(audiences authenticator.Audiences, from authenticator.Request) authenticator.Request {
	if len(audiences) == 0 {
		return from
	}
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := from.AuthenticateRequest(r)
		wanted, asked := authenticator.AudiencesFrom(r.Context())
		if err != nil || !ok || len(response.Audiences) > 0 || !asked {
			return response, ok, err
		}
		both := audiences.Intersect(wanted)
		if len(both) == 0 {
			return nil, false, nil
		}
		return &authenticator.Response{User: response.User, Audiences: both}, true, nil
	})
}

// anonymousConfig returns the paths that are open to anonymous callers: those of the configuration file, or the health paths.
func anonymousConfig(users *authentication.Users) apiserverapi.AnonymousAuthConfig {
	if configured := users.Anonymous(); configured != nil {
		return *configured
	}
	return apiserverapi.AnonymousAuthConfig{Enabled: true, Conditions: authentication.HealthOnly()}
}
