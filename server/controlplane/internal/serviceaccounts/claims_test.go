// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccounts

import (
	"crypto/elliptic"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/kube-annex/annex/registry/native/core"
)

// TestClaimsOfBoundTokens signs tokens with the right key that differ from a good one in one claim.
func TestClaimsOfBoundTokens(t *testing.T) {
	t.Parallel()
	other := &reference{Name: "other", UID: "9"}
	for name, tc := range map[string]struct {
		change func(c *claims)
		// want is part of the error; empty if the token is good.
		want string
	}{
		"good":                           {func(*claims) {}, ""},
		"bound to the account only":      {func(c *claims) { c.Bound.Secret = nil }, ""},
		"without an audience":            {func(c *claims) { c.Audience = nil }, ""},
		"for others too":                 {func(c *claims) { c.Audience = audiences{"there", "here"} }, ""},
		"for others only":                {func(c *claims) { c.Audience = audiences{"there"} }, "is invalid for the target audiences"},
		"without an expiry":              {func(c *claims) { c.Expiry = nil }, "has no expiry"},
		"expired":                        {func(c *claims) { c.Expiry = jwt.NewNumericDate(c.Expiry.Time().Add(-time.Hour)) }, "has expired"},
		"not valid yet":                  {func(c *claims) { c.NotBefore = jwt.NewNumericDate(c.Expiry.Time().Add(time.Hour)) }, "is not valid yet"},
		"of another account":             {func(c *claims) { c.Subject = "system:serviceaccount:ns:other" }, "sub claim is invalid"},
		"of an account made again":       {func(c *claims) { c.Bound.Account.UID = "3" }, "does not match claim"},
		"of a name that no account has":  {func(c *claims) { c.Subject, c.Bound.Account.Name = "system:serviceaccount:ns:A_", "A_" }, "sub claim is invalid"},
		"bound to a secret made again":   {func(c *claims) { c.Bound.Secret.UID = "3" }, "invalidated"},
		"bound to a secret that is gone": {func(c *claims) { c.Bound.Secret.Name = "gone" }, "invalidated"},
		"bound to a secret of no name":   {func(c *claims) { c.Bound.Secret.Name = "" }, "invalidated"},
		"bound to a pod":                 {func(c *claims) { c.Bound.Pod = other }, "invalidated"},
		"bound to a node":                {func(c *claims) { c.Bound.Node = other }, "invalidated"},
		"bound to a validating webhook":  {func(c *claims) { c.Bound.ValidatingWebhook = other }, "invalidated"},
		"bound to a mutating webhook":    {func(c *claims) { c.Bound.MutatingWebhook = other }, "invalidated"},
		"of the issuer of secrets":       {func(c *claims) { c.Issuer = legacyIssuer }, "lacks the claims of its issuer"},
		"without what it is bound to":    {func(c *claims) { c.Bound = nil }, "lacks the claims of its issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, keyFile(t, newKey(t, elliptic.P256())))
			now := w.clock.Now()
			secret := referTo(w.secret)
			c := claims{
				Issuer: "https://a", Subject: "system:serviceaccount:ns:builder", Audience: audiences{"here"}, ID: "1",
				Expiry: jwt.NewNumericDate(now.Add(time.Minute)), IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
				Bound: &bound{Namespace: "ns", Account: referTo(w.account), Secret: &secret},
			}
			tc.change(&c)
			token, err := w.sign(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			response, good, err := w.AuthenticateToken(t.Context(), token)
			switch {
			case tc.want == "" && (!good || err != nil):
				t.Errorf("got %t, %v; want it good", good, err)
			case tc.want != "" && (good || response != nil || err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %t, %v; want an error with %q", good, err, tc.want)
			}
		})
	}
}

// TestAudiencesOfTokens asks about a token that is meant for two servers.
func TestAudiencesOfTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keyFile(t, newKey(t, elliptic.P256())))
	now := w.clock.Now()
	token, _, err := w.Issue(t.Context(), core.Token{Account: w.account, Audiences: []string{"here", "vault"}, Issued: now, Expires: now.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ asked, want authenticator.Audiences }{
		"nobody in particular asks": {nil, authenticator.Audiences{"here"}},
		"the other server asks":     {authenticator.Audiences{"vault"}, authenticator.Audiences{"vault"}},
		"both ask":                  {authenticator.Audiences{"vault", "here"}, authenticator.Audiences{"vault", "here"}},
		"a third one asks":          {authenticator.Audiences{"mail"}, nil},
	} {
		ctx := t.Context()
		if tc.asked != nil {
			ctx = authenticator.WithAudiences(ctx, tc.asked)
		}
		response, good, err := w.AuthenticateToken(ctx, token)
		if good != (tc.want != nil) || good != (err == nil) {
			t.Errorf("%s: got %t, %v; want good %t", name, good, err, tc.want != nil)
			continue
		}
		if good {
			if diff := cmp.Diff(tc.want, response.Audiences); diff != "" {
				t.Errorf("%s: audiences (-want,+got):\n%s", name, diff)
			}
		}
	}
}

func TestTokensThatAreLeftToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keyFile(t, newKey(t, elliptic.P256())))
	for name, token := range map[string]string{
		"empty": "", "no token": "secret", "too long": w.issue(t) + strings.Repeat("x", core.MaxTokenSize),
	} {
		if response, good, err := w.AuthenticateToken(t.Context(), token); response != nil || good || err != nil {
			t.Errorf("%s: got %t, %v; want no opinion", name, good, err)
		}
	}
}

func TestTokensBeforeAccountsCanBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keyFile(t, newKey(t, elliptic.P256())))
	token := w.issue(t)
	w.lookup.Store(nil)
	if _, good, err := w.AuthenticateToken(t.Context(), token); good || err == nil {
		t.Errorf("got %t, %v; want an error", good, err)
	}
}

func TestTokensInSecretsThatAreMarkedInvalid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, keyFile(t, newKey(t, elliptic.P256())))
	token, err := w.IssueLegacy(t.Context(), w.account, w.secret)
	if err != nil {
		t.Fatal(err)
	}
	w.secret.Data = map[string][]byte{"token": []byte(token)}
	w.secret.Labels = map[string]string{invalidSinceLabel: metav1.Now().Format(time.DateOnly)}
	if _, good, err := w.AuthenticateToken(t.Context(), token); good || err == nil || !strings.Contains(err.Error(), "marked invalid") {
		t.Errorf("got %t, %v; want an error", good, err)
	}
}
