// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
)

// AuthorizationWebhook configures a server that decides, by SubjectAccessReviews, about requests that no role allows.
type AuthorizationWebhook struct {
	// File is a kubeconfig for the server. Without it there is no webhook.
	File string
	// Version is the version of the SubjectAccessReviews, v1 or v1beta1.
	Version string
	// AllowTTL and DenyTTL are the times for which answers are cached.
	AllowTTL, DenyTTL time.Duration
}

// NewAuthorizationWebhook returns options without a server, with the times of kube-apiserver.
func NewAuthorizationWebhook() AuthorizationWebhook {
	return AuthorizationWebhook{Version: "v1", AllowTTL: 5 * time.Minute, DenyTTL: 30 * time.Second}
}

// AddFlags adds flags with the names in kube-apiserver.
func (w *AuthorizationWebhook) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&w.File, "authorization-webhook-config-file", w.File,
		"File in kubeconfig format that tells which server to ask, with a SubjectAccessReview, about what roles do not allow.")
	fs.StringVar(&w.Version, "authorization-webhook-version", w.Version, "Version of the SubjectAccessReviews that are sent to it: v1 or v1beta1.")
	fs.DurationVar(&w.AllowTTL, "authorization-webhook-cache-authorized-ttl", w.AllowTTL, "How long its answer that somebody may do something holds.")
	fs.DurationVar(&w.DenyTTL, "authorization-webhook-cache-unauthorized-ttl", w.DenyTTL, "How long its answer that somebody may not do something holds.")
}

// Validate returns all errors, including those of the file.
func (w *AuthorizationWebhook) Validate() []error {
	var errs []error
	if w.File != "" {
		if _, err := webhookutil.LoadKubeconfig(w.File, nil); err != nil {
			errs = append(errs, fmt.Errorf("--authorization-webhook-config-file %s cannot be used: %w; give a complete kubeconfig file", w.File, err))
		}
	}
	if !slices.Contains([]string{"v1", "v1beta1"}, w.Version) {
		errs = append(errs, fmt.Errorf("--authorization-webhook-version is %q; set v1 or v1beta1", w.Version))
	}
	if w.AllowTTL < 0 {
		errs = append(errs, fmt.Errorf("--authorization-webhook-cache-authorized-ttl %s is negative; set 0s or more", w.AllowTTL))
	}
	if w.DenyTTL < 0 {
		errs = append(errs, fmt.Errorf("--authorization-webhook-cache-unauthorized-ttl %s is negative; set 0s or more", w.DenyTTL))
	}
	return errs
}

// authorizer returns the authorizer that calls the server, or nil if there is none. If the server does not answer, it has no opinion.
func (w *AuthorizationWebhook) authorizer() (authorizer.Authorizer, error) {
	if w.File == "" {
		return nil, nil
	}
	config, err := webhookutil.LoadKubeconfig(w.File, nil)
	if err != nil {
		return nil, fmt.Errorf("load --authorization-webhook-config-file: %w", err)
	}
	created, err := webhook.New(config, w.Version, w.AllowTTL, w.DenyTTL, *genericoptions.DefaultAuthWebhookRetryBackoff(), authorizer.DecisionNoOpinion,
		nil, "webhook", webhookmetrics.NoopAuthorizerMetrics{}, authorizationcel.NewDefaultCompiler())
	if err != nil {
		return nil, fmt.Errorf("create the authorizer of --authorization-webhook-config-file: %w", err)
	}
	return created, nil
}
