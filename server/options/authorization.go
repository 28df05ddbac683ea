// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// healthPaths may be read by anyone, without asking the host: probes have no credentials, and have to work while the host is away.
var healthPaths = []string{"/healthz", "/livez", "/readyz"}

// IsHealthPath tells whether a path is that of a health check.
func IsHealthPath(path string) bool { return slices.Contains(healthPaths, path) }

// Authorization says how the host is asked whether a user may do something.
type Authorization struct {
	// AllowTTL and DenyTTL are how long the host's answer holds.
	AllowTTL, DenyTTL time.Duration
	// AlwaysAllowPaths are allowed without asking, beside the health paths. A trailing * stands for every path that begins so.
	AlwaysAllowPaths []string
}

// NewAuthorization returns answers that hold for five seconds: a right that was taken away is gone after that.
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

// Validate reports every mistake.
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

// ApplyTo has the host asked through the client.
func (a *Authorization) ApplyTo(config *genericapiserver.Config, client authorizationclient.AuthorizationV1Interface) (err error) {
	if config.Authorization.Authorizer, err = a.authorizer(client); err != nil {
		return err
	}
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, config *genericapiserver.Config) http.Handler {
		return withUnanswered(build(api, config))
	}
	return nil
}

// authorizer asks the host. Holders of system:masters are allowed everything, as the host would say itself.
func (a *Authorization) authorizer(client authorizationclient.AuthorizationV1Interface) (authorizer.Authorizer, error) {
	paths, err := path.NewAuthorizer(append(append([]string{}, healthPaths...), append(subpaths(healthPaths), a.AlwaysAllowPaths...)...))
	if err != nil {
		return nil, fmt.Errorf("allow paths: %w", err)
	}
	delegated := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client,
		AllowCacheTTL:             a.AllowTTL,
		DenyCacheTTL:              a.DenyTTL,
		WebhookRetryBackoff:       reviewBackoff(),
	}
	host, err := delegated.New()
	if err != nil {
		return nil, fmt.Errorf("delegate authorization to the host: %w", err)
	}
	return union.New(
		union.NamedAuthorizer{AuthorizerName: "privileged-groups", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "paths", Authorizer: paths},
		union.NamedAuthorizer{AuthorizerName: "host", Authorizer: reviews{host}},
	)
}

func subpaths(paths []string) []string {
	below := make([]string, 0, len(paths))
	for _, path := range paths {
		below = append(below, path+"/*")
	}
	return below
}

// reviewBackoff is how often and how soon a review that did not reach the host is tried again.
func reviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 5}
}
