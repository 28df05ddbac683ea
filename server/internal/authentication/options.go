// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apiserver/pkg/util/webhook"
)

// Options say who else knows users.
type Options struct {
	// ConfigFile holds an AuthenticationConfiguration of apiserver.config.k8s.io.
	ConfigFile string
	// WebhookFile is a kubeconfig for a server that answers TokenReviews of WebhookVersion. Answers are kept for WebhookCacheTTL.
	WebhookFile, WebhookVersion string
	WebhookCacheTTL             time.Duration
}

// NewOptions returns that nobody else does.
func NewOptions() Options { return Options{WebhookVersion: "v1", WebhookCacheTTL: 2 * time.Minute} }

// AddFlags adds flags under the names that a kube-apiserver has for them.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ConfigFile, "authentication-config", o.ConfigFile,
		"File with an AuthenticationConfiguration of apiserver.config.k8s.io/v1: issuers of JSON web tokens, such as OpenID Connect providers, and where callers may be anonymous. It is read again when it changes.")
	fs.StringVar(&o.WebhookFile, "authentication-token-webhook-config-file", o.WebhookFile,
		"File in kubeconfig format that tells which server to ask, with a TokenReview, whose bearer token a request has.")
	fs.StringVar(&o.WebhookVersion, "authentication-token-webhook-version", o.WebhookVersion, "Version of the TokenReviews that are sent to it: v1 or v1beta1.")
	fs.DurationVar(&o.WebhookCacheTTL, "authentication-token-webhook-cache-ttl", o.WebhookCacheTTL, "How long its answers are kept.")
}

// Validate reports every mistake, those in the files included. Own issuers are those of the server itself, whose tokens nobody else
// may issue.
func (o *Options) Validate(own []string) []error {
	var errs []error
	if o.ConfigFile != "" {
		if _, err := read(o.ConfigFile, own); err != nil {
			errs = append(errs, err)
		}
	}
	if o.WebhookFile != "" {
		if _, err := webhook.LoadKubeconfig(o.WebhookFile, nil); err != nil {
			errs = append(errs, fmt.Errorf("--authentication-token-webhook-config-file %s cannot be used: %w; give a complete kubeconfig file", o.WebhookFile, err))
		}
	}
	if !slices.Contains([]string{"v1", "v1beta1"}, o.WebhookVersion) {
		errs = append(errs, fmt.Errorf("--authentication-token-webhook-version is %q; set v1 or v1beta1", o.WebhookVersion))
	}
	if o.WebhookCacheTTL < 0 {
		errs = append(errs, errors.New("--authentication-token-webhook-cache-ttl is negative; set 0 or more"))
	}
	return errs
}
