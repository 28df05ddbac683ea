// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllermanager

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// applyAuthentication believes tokens of the host and, where a file has authorities for them, client certificates. Health checks
// need neither: probes have no identity, and must be answered while the host is away.
func (o *Options) applyAuthentication(config *genericapiserver.Config, reviews authenticationclient.AuthenticationV1Interface) error {
	anonymous := &apiserver.AnonymousAuthConfig{Enabled: true}
	for _, path := range []string{"/healthz", "/livez", "/readyz", leadershipPath} {
		anonymous.Conditions = append(anonymous.Conditions, apiserver.AnonymousAuthCondition{Path: path})
	}
	delegating := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                anonymous,
		TokenAccessReviewClient:  reviews,
		TokenAccessReviewTimeout: 10 * time.Second,
		WebhookRetryBackoff:      &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 5},
		CacheTTL:                 o.TokenTTL,
	}
	if o.ClientCAFile != "" {
		authorities, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", o.ClientCAFile)
		if err != nil {
			return fmt.Errorf("load --client-ca-file: %w", err)
		}
		delegating.ClientCertificateCAContentProvider = authorities
		config.SecureServing.ClientCA = authorities
	}
	authenticator, _, err := delegating.New()
	if err != nil {
		return fmt.Errorf("delegate authentication to the host: %w", err)
	}
	config.Authentication.Authenticator = authenticator
	return nil
}
