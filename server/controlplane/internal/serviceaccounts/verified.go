// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccounts

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/utils/lru"
)

// verifiedTokens is how many tokens are remembered as signed. What else makes them good is looked at every time.
const verifiedTokens = 1024

// verified are the claims of tokens by their hash; only signed ones get in, so that strangers cannot fill it.
type verified struct{ tokens *lru.Cache }

type verifiedToken struct {
	claims *claims
	// keys are those that verified it. Others are asked again.
	keys *keys
}

func newVerified() verified { return verified{lru.New(verifiedTokens)} }

func (v verified) get(hash [sha256.Size]byte, keys *keys) (*claims, bool) {
	found, ok := v.tokens.Get(hash)
	if !ok || found.(verifiedToken).keys != keys {
		return nil, false
	}
	return found.(verifiedToken).claims, true
}

// claims returns what a token says that one of the keys has signed, or nothing where it is none of the issuers' tokens.
func (t *Tokens) claims(ctx context.Context, token string) (*claims, error) {
	keys, hash := t.keys.current(ctx), sha256.Sum256([]byte(token))
	if known, ok := t.verified.get(hash, keys); ok {
		return known, nil
	}
	parsed, err := jwt.ParseSigned(token, algorithms())
	if err != nil {
		return nil, nil //nolint:nilerr // not a token of ours
	}
	var said claims
	if err = parsed.UnsafeClaimsWithoutVerification(&said); err != nil || !t.takes(said.Issuer) {
		return nil, nil //nolint:nilerr // not a token of ours
	}
	c, err := verify(parsed, keys)
	if err != nil {
		return nil, err
	}
	t.verified.tokens.Add(hash, verifiedToken{claims: c, keys: keys})
	return c, nil
}

func (t *Tokens) takes(issuer string) bool {
	return issuer == legacyIssuer || slices.Contains(t.config.Issuers, issuer)
}

// verify returns the claims of a token that one of the keys has signed.
func verify(token *jwt.JSONWebToken, keys *keys) (*claims, error) {
	header := token.Headers[0]
	for _, key := range keys.withID(header.KeyID) {
		var c claims
		if string(key.algorithm) == header.Algorithm && token.Claims(key.key, &c) == nil {
			return &c, nil
		}
	}
	return nil, errors.New("invalid signature, or signed with a key that is not known")
}
