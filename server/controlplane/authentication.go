// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
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

	"github.com/kube-annex/annex/server/controlplane/controllers/authenticationtrust"
	"github.com/kube-annex/annex/server/controlplane/externalusers"
	"github.com/kube-annex/annex/server/controlplane/serviceaccounts"
	"github.com/kube-annex/annex/server/options"
)

// applyAuthentication sets up who callers are, and returns what extension servers are to be told of it.
//
// The listener asks for certificates of both authorities; which of them speaks for a user and which for a proxy is decided
// here. Tokens are those of service accounts, where there are any. Without an identity only the health paths are served.
func (o *completedOptions) applyAuthentication(config *genericapiserver.Config, tokens *serviceaccounts.Tokens, users *externalusers.Users) (authenticationtrust.Trust, error) {
	var trust authenticationtrust.Trust
	var authenticators []authenticator.Request
	headers, err := o.RequestHeader.Config()
	if err != nil {
		return trust, err
	}
	// The proxy comes first: its certificate says who proxies, and not who calls.
	if headers != nil {
		trust.RequestHeader = publishedHeaders(headers)
		config.Authentication.RequestHeaderConfig = headers
		if err := config.Authentication.ApplyClientCert(headers.CAContentProvider, config.SecureServing); err != nil {
			return trust, fmt.Errorf("accept certificates of --requestheader-client-ca-file: %w", err)
		}
		authenticators = append(authenticators, options.ProxyCertificates(headers))
	}
	if o.ClientCAFile != "" {
		clientCA, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", o.ClientCAFile)
		if err != nil {
			return trust, fmt.Errorf("load --client-ca-file: %w", err)
		}
		trust.ClientCA = clientCA
		if err := config.Authentication.ApplyClientCert(clientCA, config.SecureServing); err != nil {
			return trust, fmt.Errorf("accept certificates of --client-ca-file: %w", err)
		}
		authenticators = append(authenticators, options.UserCertificates(clientCA))
	}
	// Service accounts come first: an issuer elsewhere may have to be asked about a token that it does not know.
	bearers := tokenunion.New(users)
	if tokens != nil {
		bearers = tokenunion.New(tokens, users)
	}
	authenticators = append(authenticators, bearertoken.New(bearers), websocket.NewProtocolAuthenticator(bearers))
	authenticators = append(authenticators, o.Authenticators...)
	config.Authentication.APIAudiences = o.ServiceAccounts.audiences()
	known := group.NewAuthenticatedGroupAdder(meantFor(config.Authentication.APIAudiences, union.New(authenticators...)))
	config.Authentication.Authenticator = known
	if anonymously := anonymousAt(users); anonymously.Enabled {
		config.Authentication.Authenticator = union.NewFailOnError(known, anonymous.NewAuthenticator(anonymously.Conditions))
	}
	return trust, nil
}

// publishedHeaders adds those that our own aggregator sets to the ones that are configured. It always sets or removes X-Remote-Uid, so
// extension servers can believe that. Other front proxies may not know it and pass on what a client sent, so this server itself does not.
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

// meantFor takes what says nothing of audiences, such as a certificate, to be meant for the given ones, if there are any.
func meantFor(audiences authenticator.Audiences, from authenticator.Request) authenticator.Request {
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

// anonymousAt tells where callers without any identity are let in: where the configuration file says, or else at the health paths.
func anonymousAt(users *externalusers.Users) apiserverapi.AnonymousAuthConfig {
	if configured := users.Anonymous(); configured != nil {
		return *configured
	}
	return apiserverapi.AnonymousAuthConfig{Enabled: true, Conditions: options.HealthOnly()}
}
