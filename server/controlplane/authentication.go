// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"

	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/kube-annex/annex/server/controlplane/controllers/authenticationtrust"
)

// applyAuthentication sets up who callers are, and returns what extension servers are to be told of it.
//
// The listener asks for certificates of both authorities; which of them speaks for a user and which for a proxy is decided
// here. Without an identity only the health paths are served.
func (o *completedOptions) applyAuthentication(config *genericapiserver.Config) (authenticationtrust.Trust, error) {
	var trust authenticationtrust.Trust
	var authenticators []authenticator.Request
	requestHeader := o.requestHeader()
	headers, err := requestHeader.Config()
	if err != nil {
		return trust, err
	}
	// The proxy comes first: its certificate says who proxies, and not who calls.
	if headers != nil {
		published := *headers
		// Our own aggregator always sets or removes this header, so extension servers can believe it. Other front proxies
		// may not know it and pass on what a client sent, so this server itself does not.
		published.UIDHeaders = headerrequest.StaticStringSlice{"X-Remote-Uid"}
		trust.RequestHeader = &published
		config.Authentication.RequestHeaderConfig = headers
		if err := config.Authentication.ApplyClientCert(headers.CAContentProvider, config.SecureServing); err != nil {
			return trust, fmt.Errorf("accept certificates of --requestheader-client-ca-file: %w", err)
		}
		authenticators = append(authenticators, headerrequest.NewDynamicVerifyOptionsSecure(headers.CAContentProvider.VerifyOptions,
			headers.AllowedClientNames, headers.UsernameHeaders, headers.UIDHeaders, headers.GroupHeaders, headers.ExtraHeaderPrefixes))
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
		authenticators = append(authenticators, x509.NewDynamic(clientCA.VerifyOptions, x509.CommonNameUserConversion))
	}
	authenticators = append(authenticators, o.Authenticators...)
	known := group.NewAuthenticatedGroupAdder(union.New(authenticators...))
	config.Authentication.Authenticator = union.NewFailOnError(known, anonymous.NewAuthenticator([]apiserverapi.AnonymousAuthCondition{
		{Path: "/healthz"}, {Path: "/livez"}, {Path: "/readyz"},
	}))
	return trust, nil
}
