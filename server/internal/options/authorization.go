// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/kube-annex/annex/server/internal/authorization"
)

// Authorization configures authorization by the host, with SubjectAccessReviews.
type Authorization struct {
	// AllowTTL and DenyTTL are the times for which reviews are cached.
	AllowTTL, DenyTTL time.Duration
	// AlwaysAllowPaths are allowed without a review, as the health paths are. A trailing * matches every suffix.
	AlwaysAllowPaths []string
}

// NewAuthorization returns options that cache reviews for five seconds, after which a revoked right is gone.
func NewAuthorization() Authorization {
	return Authorization{AllowTTL: 5 * time.Second, DenyTTL: 5 * time.Second}
}

// AddFlags adds all authorization flags.
func (a *Authorization) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&a.AllowTTL, "authorization-webhook-cache-authorized-ttl", a.AllowTTL, "How long the host's answer that a user may do something holds.")
	fs.DurationVar(&a.DenyTTL, "authorization-webhook-cache-unauthorized-ttl", a.DenyTTL, "How long the host's answer that a user may not do something holds.")
	fs.StringSliceVar(&a.AlwaysAllowPaths, "authorization-always-allow-paths", a.AlwaysAllowPaths,
		"Paths that every authenticated user may read without asking the host, beside the health paths. A trailing * stands for every path that begins so.")
}

// Validate returns all errors.
func (a *Authorization) Validate() []error {
	var errs []error
	if a.AllowTTL < 0 {
		errs = append(errs, fmt.Errorf("--authorization-webhook-cache-authorized-ttl %s is negative; give 0 or more", a.AllowTTL))
	}
	if a.DenyTTL < 0 {
		errs = append(errs, fmt.Errorf("--authorization-webhook-cache-unauthorized-ttl %s is negative; give 0 or more", a.DenyTTL))
	}
	if _, err := path.NewAuthorizer(a.AlwaysAllowPaths); err != nil {
		errs = append(errs, fmt.Errorf("--authorization-always-allow-paths: %w", err))
	}
	return errs
}

// ApplyTo sets the authorizer. It allows everything to system:masters, as the host does, and reads of the paths; the host decides about the
// rest, by reviews through the client.
func (a *Authorization) ApplyTo(config *genericapiserver.Config, client authorizationclient.AuthorizationV1Interface) error {
	allowed := slices.Clone(a.AlwaysAllowPaths)
	for _, health := range authorization.HealthPaths() {
		allowed = append(allowed, health, health+"/*")
	}
	paths, err := path.NewAuthorizer(allowed)
	if err != nil {
		return fmt.Errorf("allow paths: %w", err)
	}
	delegated := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client,
		AllowCacheTTL:             a.AllowTTL,
		DenyCacheTTL:              a.DenyTTL,
		WebhookRetryBackoff:       reviewBackoff(),
	}
	host, err := delegated.New()
	if err != nil {
		return fmt.Errorf("delegate authorization to the host: %w", err)
	}
	config.Authorization.Authorizer, err = union.New(
		union.NamedAuthorizer{AuthorizerName: "privileged-groups", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "paths", Authorizer: paths},
		union.NamedAuthorizer{AuthorizerName: "host", Authorizer: authorization.WithHostReviews(host)},
	)
	return err
}

// reviewBackoff is the backoff of reviews that do not reach the host.
func reviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 5}
}
