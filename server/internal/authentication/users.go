// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/webhook"
	tokenwebhook "k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
)

// Server is what has to be known of the server that users sign in to.
type Server struct {
	// ID tells it from others in metrics.
	ID string
	// Audiences are whom its tokens are for, and Issuers who issues its own.
	Audiences authenticator.Audiences
	Issuers   []string
}

// Users knows users by their tokens.
type Users struct {
	issuers *issuers
	all     authenticator.Token
}

// New returns what the options ask for. Issuers are asked for their keys until the context ends.
func New(ctx context.Context, o Options, server Server) (*Users, error) {
	u := &Users{}
	var all []authenticator.Token
	if o.ConfigFile != "" {
		first, err := read(o.ConfigFile, server.Issuers)
		if err != nil {
			return nil, err
		}
		u.issuers = &issuers{path: o.ConfigFile, own: server.Issuers, id: server.ID, audiences: server.Audiences}
		made, err := u.issuers.start(ctx, first)
		if err != nil {
			return nil, err
		}
		u.issuers.current.Store(made)
		all = append(all, u.issuers)
	}
	if o.WebhookFile != "" {
		config, err := webhook.LoadKubeconfig(o.WebhookFile, nil)
		if err != nil {
			return nil, fmt.Errorf("load --authentication-token-webhook-config-file: %w", err)
		}
		asked, err := tokenwebhook.New(config, o.WebhookVersion, server.Audiences, *options.DefaultAuthWebhookRetryBackoff())
		if err != nil {
			return nil, fmt.Errorf("set up --authentication-token-webhook-config-file: %w", err)
		}
		all = append(all, cache.New(asked, false, o.WebhookCacheTTL, o.WebhookCacheTTL))
	}
	u.all = union.New(all...)
	return u, nil
}

// AuthenticateToken implements authenticator.Token.
func (u *Users) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	return u.all.AuthenticateToken(ctx, token)
}

// Anonymous tells where callers without any identity are let in, if the file says something about that.
func (u *Users) Anonymous() *apiserver.AnonymousAuthConfig {
	if u.issuers == nil {
		return nil
	}
	return u.issuers.current.Load().file.Anonymous
}

// Run follows the file until the context ends.
func (u *Users) Run(ctx context.Context) {
	if u.issuers != nil {
		u.issuers.follow(ctx)
	}
}
