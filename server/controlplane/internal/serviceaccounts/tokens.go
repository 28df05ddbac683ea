// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccounts

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/registry/native/core"
)

// Config says who issues tokens, and for whom.
type Config struct {
	// Issuers are those whose tokens are taken; the first one signs.
	Issuers []string
	// SigningKeyFile holds the private key in PEM; without it no token is issued. KeyFiles hold further keys that verify.
	SigningKeyFile string
	KeyFiles       []string
	// Audiences are those of this server, and of a token that is asked for without any.
	Audiences []string
	// MaxLifetime is what longer lifetimes are shortened to; 0 means that they are not.
	MaxLifetime time.Duration
	Clock       clock.PassiveClock
}

// Tokens issues and judges tokens.
type Tokens struct {
	config   Config
	keys     *keyFiles
	verified verified
	lookup   atomic.Pointer[lookup]
}

var _ core.TokenIssuer = &Tokens{}

// lookup reads accounts and secrets as they are now; the latter is nil where that kind is not served.
type lookup struct {
	accounts, secrets rest.Getter
}

// New reads the keys. The error names the file that cannot be used.
func New(config Config) (*Tokens, error) {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	keys, err := newKeyFiles(config.SigningKeyFile, config.KeyFiles, config.Clock)
	if err != nil {
		return nil, err
	}
	return &Tokens{config: config, keys: keys, verified: newVerified()}, nil
}

// Attach tells where accounts and secrets are read. Until then no token is good.
func (t *Tokens) Attach(accounts, secrets rest.Getter) {
	t.lookup.Store(&lookup{accounts: accounts, secrets: secrets})
}

// Registry returns what the storage of service accounts asks. It may be called on nil.
func (t *Tokens) Registry() core.Tokens {
	if t == nil {
		return core.Tokens{}
	}
	registry := core.Tokens{Attach: t.Attach}
	if t.Issues() {
		registry.Issuer = t
	}
	return registry
}

// Issues tells whether there is a key to sign with. It may be called on nil.
func (t *Tokens) Issues() bool { return t != nil && t.config.SigningKeyFile != "" }

// Audiences are those of this server.
func (t *Tokens) Audiences() []string { return t.config.Audiences }

// MaxLifetime is what longer lifetimes are shortened to; 0 means that they are not.
func (t *Tokens) MaxLifetime() time.Duration { return t.config.MaxLifetime }

// Issue signs a token. The id is what user.Info and audit logs know it by.
func (t *Tokens) Issue(ctx context.Context, token core.Token) (signed, credentialID string, err error) {
	c := claims{
		Issuer:    t.config.Issuers[0],
		Subject:   serviceaccount.MakeUsername(token.Account.Namespace, token.Account.Name),
		Audience:  token.Audiences,
		Expiry:    jwt.NewNumericDate(token.Expires),
		NotBefore: jwt.NewNumericDate(token.Issued),
		IssuedAt:  jwt.NewNumericDate(token.Issued),
		ID:        uuid.NewString(),
		Bound:     &bound{Namespace: token.Account.Namespace, Account: referTo(token.Account)},
	}
	if token.Secret != nil {
		secret := referTo(token.Secret)
		c.Bound.Secret = &secret
	}
	signed, err = t.sign(ctx, c)
	return signed, tokenjwt.CredentialIDForJTI(c.ID), err
}

// IssueLegacy signs the token that a Secret of the type kubernetes.io/service-account-token holds. It does not expire.
func (t *Tokens) IssueLegacy(ctx context.Context, account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
	return t.sign(ctx, claims{
		Issuer:      legacyIssuer,
		Subject:     serviceaccount.MakeUsername(account.Namespace, account.Name),
		Namespace:   account.Namespace,
		SecretName:  secret.Name,
		AccountName: account.Name,
		AccountUID:  account.UID,
	})
}

func (t *Tokens) sign(ctx context.Context, c claims) (string, error) {
	signer := t.keys.current(ctx).signer
	if signer == nil {
		return "", errors.New("there is no key to sign tokens with")
	}
	signed, err := jwt.Signed(signer).Claims(c).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return signed, nil
}
