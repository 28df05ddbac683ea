// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccounts

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/registry/native/core"
)

// invalidSinceLabel takes a token in a Secret out of use without deleting the Secret.
const invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"

// readTimeout bounds one read of an account or a secret.
const readTimeout = 2 * time.Second

// errWithdrawn does not tell which of the objects that a token is bound to is gone, or was replaced.
var errWithdrawn = errors.New("service account token has been invalidated")

var _ authenticator.Token = &Tokens{}

// AuthenticateToken implements authenticator.Token. What is no token of the issuers is left to other authenticators.
func (t *Tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if len(token) > core.MaxTokenSize {
		return nil, false, nil
	}
	c, err := t.claims(ctx, token)
	if c == nil || err != nil {
		return nil, false, err
	}
	audiences, err := t.audiences(ctx, c)
	if err != nil {
		return nil, false, err
	}
	now := t.config.Clock.Now()
	if err = checkTimes(c, now); err != nil {
		return nil, false, err
	}
	account, err := t.account(ctx, token, c, now)
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: account.UserInfo(), Audiences: audiences}, true, nil
}

// audiences returns those of the token that are asked for; without any it is not meant for whoever asks.
func (t *Tokens) audiences(ctx context.Context, c *claims) (authenticator.Audiences, error) {
	own := authenticator.Audiences(t.config.Audiences)
	meant := authenticator.Audiences(c.Audience)
	if len(meant) == 0 {
		meant = own
	}
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = own
	}
	both := meant.Intersect(wanted)
	if len(both) == 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", meant, wanted)
	}
	return both, nil
}

func checkTimes(c *claims, now time.Time) error {
	if c.Bound != nil && c.Expiry == nil {
		return errors.New("service account token has no expiry")
	}
	switch err := c.times().Validate(jwt.Expected{Time: now}); {
	case errors.Is(err, jwt.ErrExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is not valid yet")
	case err != nil:
		return errors.New("service account token claims could not be validated")
	}
	return nil
}

// account returns whose token it is, if all that it needs is still there.
func (t *Tokens) account(ctx context.Context, token string, c *claims, now time.Time) (*serviceaccount.ServiceAccountInfo, error) {
	lookup := t.lookup.Load()
	if lookup == nil {
		return nil, errors.New("service accounts cannot be read yet")
	}
	switch {
	case c.Bound != nil && slices.Contains(t.config.Issuers, c.Issuer):
		return lookup.bound(ctx, c, now)
	case c.Bound == nil && c.Issuer == legacyIssuer:
		return lookup.legacy(ctx, token, c)
	}
	return nil, errors.New("service account token lacks the claims of its issuer")
}

// bound judges a token that was asked for. Deletion that waits for finalizers gets the leeway that clocks get.
func (l *lookup) bound(ctx context.Context, c *claims, now time.Time) (*serviceaccount.ServiceAccountInfo, error) {
	gone := now.Add(-jwt.DefaultLeeway)
	if err := l.checkAccount(ctx, c, c.Bound.Namespace, c.Bound.Account, gone); err != nil {
		return nil, err
	}
	for _, other := range []*reference{c.Bound.Pod, c.Bound.Node, c.Bound.ValidatingWebhook, c.Bound.MutatingWebhook} {
		if other != nil {
			return nil, errWithdrawn
		}
	}
	if c.Bound.Secret != nil {
		secret, err := l.secret(ctx, c.Bound.Namespace, c.Bound.Secret.Name)
		if err != nil {
			return nil, err
		}
		if secret.UID != c.Bound.Secret.UID || deletedBefore(secret, gone) {
			return nil, errWithdrawn
		}
	}
	return &serviceaccount.ServiceAccountInfo{
		Namespace: c.Bound.Namespace, Name: c.Bound.Account.Name, UID: string(c.Bound.Account.UID),
		CredentialID: tokenjwt.CredentialIDForJTI(c.ID),
	}, nil
}

// legacy judges a token in a Secret, which has to hold it to this day.
func (l *lookup) legacy(ctx context.Context, token string, c *claims) (*serviceaccount.ServiceAccountInfo, error) {
	secret, err := l.secret(ctx, c.Namespace, c.SecretName)
	if err != nil {
		return nil, err
	}
	if secret.DeletionTimestamp != nil || subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) == 0 {
		return nil, errWithdrawn
	}
	if secret.Labels[invalidSinceLabel] != "" {
		return nil, fmt.Errorf("the token in secret %s/%s has been marked invalid; remove its label %s, or use a token of the TokenRequest API",
			secret.Namespace, secret.Name, invalidSinceLabel)
	}
	// No leeway: the token has no time of its own.
	account := reference{Name: c.AccountName, UID: c.AccountUID}
	if err := l.checkAccount(ctx, c, c.Namespace, account, time.Unix(1<<40, 0)); err != nil {
		return nil, err
	}
	return &serviceaccount.ServiceAccountInfo{Namespace: c.Namespace, Name: c.AccountName, UID: string(c.AccountUID)}, nil
}

// checkAccount tells whether the account is still the one that the token was issued to, and was not deleted before a time.
func (l *lookup) checkAccount(ctx context.Context, c *claims, namespace string, account reference, gone time.Time) error {
	if c.Subject != serviceaccount.MakeUsername(namespace, account.Name) {
		return errors.New("sub claim is invalid")
	}
	if _, _, err := serviceaccount.SplitUsername(c.Subject); err != nil {
		return errors.New("sub claim is invalid")
	}
	obj, err := read(ctx, l.accounts, "serviceaccounts", namespace, account.Name)
	if err != nil {
		return err
	}
	current := obj.(*corev1.ServiceAccount)
	if current.UID != account.UID {
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", current.UID, account.UID)
	}
	if deletedBefore(current, gone) {
		return fmt.Errorf("service account %s/%s has been deleted", namespace, account.Name)
	}
	return nil
}

func (l *lookup) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	if l.secrets == nil || namespace == "" || name == "" {
		return nil, errWithdrawn
	}
	obj, err := read(ctx, l.secrets, "secrets", namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, errWithdrawn
	}
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Secret), nil
}

// read returns an object as it is stored or, if the store does not answer, as the watch cache has it. An object that is not in the watch
// cache may have been created since, so the error is NotFound only if the store says so, and else ServiceUnavailable.
func read(ctx context.Context, getter rest.Getter, resource, namespace, name string) (runtime.Object, error) {
	ctx = reading(ctx, resource, namespace, name)
	get := func(version string) (runtime.Object, error) {
		limited, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return getter.Get(limited, name, &metav1.GetOptions{ResourceVersion: version})
	}
	obj, err := get("")
	if err == nil || apierrors.IsNotFound(err) {
		return obj, err
	}
	if obj, cacheErr := get("0"); cacheErr == nil {
		return obj, nil
	}
	klog.FromContext(ctx).V(2).Info("Could not verify a service account token", "resource", resource, "namespace", namespace, "name", name, "reason", err.Error())
	return nil, apierrors.NewServiceUnavailable("the store could not be asked about a service account token; try again")
}

func deletedBefore(obj metav1.Object, gone time.Time) bool {
	return obj.GetDeletionTimestamp() != nil && obj.GetDeletionTimestamp().Time.Before(gone)
}

// reading returns the context for reading an object. The store takes from it what its errors are about.
func reading(ctx context.Context, resource, namespace, name string) context.Context {
	return request.WithNamespace(request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: "get", APIVersion: "v1", Resource: resource, Namespace: namespace, Name: name,
	}), namespace)
}
