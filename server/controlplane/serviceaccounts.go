// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/kube-annex/annex/server/controlplane/internal/serviceaccounts"
	"github.com/kube-annex/annex/server/internal/options"
)

const (
	// minTokenMaximum and maxTokenMaximum bound --service-account-max-token-expiration, as in kube-apiserver.
	minTokenMaximum = time.Hour
	maxTokenMaximum = (1 << 32) * time.Second
)

// ServiceAccounts configures the tokens of service accounts. Without an issuer there are none.
type ServiceAccounts struct {
	// Issuers lists the accepted issuers; the first one issues new tokens.
	Issuers []string
	// SigningKeyFile holds the key that signs tokens, and KeyFiles additional keys that verify them. The files may be replaced while serving.
	SigningKeyFile string
	KeyFiles       []string
	// Audiences lists the audiences of this server; the default is Issuers.
	Audiences []string
	// MaxTokenExpiration is the maximum lifetime of a token; 0 means no maximum.
	MaxTokenExpiration time.Duration
	// KeysURI is the published address of the keys; the default is an address of this server.
	KeysURI string
	// RootCAFile holds the certificate authorities of the serving certificate, in PEM, for the ConfigMap kube-root-ca.crt of every namespace.
	// The default is the serving certificate if it is self-signed; otherwise nothing is published.
	RootCAFile string
}

// AddFlags adds flags with the names in kube-apiserver and kube-controller-manager.
func (a *ServiceAccounts) AddFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&a.Issuers, "service-account-issuer", a.Issuers,
		"Identifier of the issuer of service account tokens. Only an https URL is told to others at /.well-known/openid-configuration. May be repeated: the first one issues, all are taken.")
	fs.StringVar(&a.SigningKeyFile, "service-account-signing-key-file", a.SigningKeyFile,
		"File with the private key (ECDSA or RSA, in PEM) that signs service account tokens. Without it none are issued.")
	fs.StringArrayVar(&a.KeyFiles, "service-account-key-file", a.KeyFiles,
		"File with further keys (ECDSA or RSA, public or private, in PEM) that service account tokens may be signed with. May be repeated.")
	fs.StringSliceVar(&a.Audiences, "api-audiences", a.Audiences,
		"Audiences of this server: a token has to be meant for one of them. Without any they are those of --service-account-issuer.")
	fs.DurationVar(&a.MaxTokenExpiration, "service-account-max-token-expiration", a.MaxTokenExpiration,
		"How long service account tokens are valid at most. Requests for more get a token that is valid for that long; 0 for no maximum.")
	fs.StringVar(&a.KeysURI, "service-account-jwks-uri", a.KeysURI,
		"https URL at which others are told to find the keys of service account tokens, where that is not this server's own address.")
	fs.StringVar(&a.RootCAFile, "root-ca-file", a.RootCAFile,
		"File with the authorities of this server's certificate, in PEM. They are published in every namespace as the ConfigMap kube-root-ca.crt.")
}

// Validate returns all errors, including those of files.
func (a *ServiceAccounts) Validate() []error {
	errs := a.validateIssuers()
	if len(a.Issuers) > 0 && a.SigningKeyFile == "" && len(a.KeyFiles) == 0 {
		errs = append(errs, errors.New("--service-account-issuer is set without a key; set --service-account-signing-key-file, or --service-account-key-file to verify tokens only"))
	}
	if len(a.Issuers) == 0 && (a.SigningKeyFile != "" || len(a.KeyFiles) > 0) {
		errs = append(errs, errors.New("keys of service account tokens are set without an issuer; set --service-account-issuer, best to the https URL of this server"))
	}
	if slices.Contains(a.KeyFiles, "") {
		errs = append(errs, errors.New("--service-account-key-file has an empty value; remove it"))
	} else if _, err := serviceaccounts.New(serviceaccounts.Config{SigningKeyFile: a.SigningKeyFile, KeyFiles: a.KeyFiles}); err != nil {
		errs = append(errs, fmt.Errorf("--service-account-signing-key-file or --service-account-key-file cannot be used: %w", err))
	}
	if slices.Contains(a.Audiences, "") {
		errs = append(errs, errors.New("--api-audiences has an empty value; remove it"))
	}
	if most := a.MaxTokenExpiration; most != 0 && (most < minTokenMaximum || most > maxTokenMaximum) {
		errs = append(errs, fmt.Errorf("--service-account-max-token-expiration is %s; set 0, or between 1h and 2^32 seconds", most))
	}
	if a.KeysURI != "" {
		if uri, err := url.Parse(a.KeysURI); err != nil || uri.Scheme != "https" || uri.Host == "" {
			errs = append(errs, fmt.Errorf("--service-account-jwks-uri %q is no https URL; give one", a.KeysURI))
		}
	}
	if err := options.ValidateCAFile("root-ca-file", a.RootCAFile); err != nil {
		errs = append(errs, err)
	}
	return errs
}

func (a *ServiceAccounts) validateIssuers() []error {
	var errs []error
	for i, issuer := range a.Issuers {
		switch {
		case issuer == "":
			errs = append(errs, errors.New("--service-account-issuer has an empty value; remove it"))
		case slices.Contains(a.Issuers[:i], issuer):
			errs = append(errs, fmt.Errorf("--service-account-issuer %q is given twice; remove one", issuer))
		case strings.Contains(issuer, ":"):
			if _, err := url.Parse(issuer); err != nil {
				errs = append(errs, fmt.Errorf("--service-account-issuer %q has a colon, but is no URL; give an https URL: %w", issuer, err))
			}
		}
	}
	return errs
}

// audiences returns the audiences of this server.
func (a *ServiceAccounts) audiences() []string {
	if len(a.Audiences) > 0 {
		return a.Audiences
	}
	return a.Issuers
}

// tokens returns the issuer and authenticator of tokens, or nil without an issuer.
func (o *completedOptions) tokens() (*serviceaccounts.Tokens, error) {
	a := o.ServiceAccounts
	if len(a.Issuers) == 0 || !o.serve(serviceAccountKind) {
		return nil, nil
	}
	tokens, err := serviceaccounts.New(serviceaccounts.Config{
		Issuers: a.Issuers, SigningKeyFile: a.SigningKeyFile, KeyFiles: a.KeyFiles,
		Audiences: a.audiences(), MaxLifetime: a.MaxTokenExpiration,
	})
	if err != nil {
		return nil, fmt.Errorf("read the keys of service account tokens: %w", err)
	}
	return tokens, nil
}

// serveIssuer publishes the keys that verify tokens of service accounts.
func (c *completedConfig) serveIssuer(server *genericapiserver.GenericAPIServer) {
	if c.authentication.tokens == nil {
		return
	}
	keysURI := c.options.ServiceAccounts.KeysURI
	if keysURI == "" {
		keysURI = "https://" + server.ExternalAddress + serviceaccounts.KeysPath
	}
	c.authentication.tokens.ServeDiscovery(server.Handler.NonGoRestfulMux, keysURI)
}
