// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccounttokens fills Secrets of the type kubernetes.io/service-account-token, and removes them with their account.
//
// Who makes such a Secret gets a token that does not expire. Accounts do not get one by themselves.
package serviceaccounttokens

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	informers "k8s.io/client-go/informers/core/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/controllerloop"
)

// byAccount is the index of secrets by the account that they are of.
const byAccount = "account"

// Issue signs the token that a secret is to hold.
type Issue func(ctx context.Context, account *corev1.ServiceAccount, secret *corev1.Secret) (string, error)

// Controller keeps the secrets.
type Controller struct {
	client      client.CoreV1Interface
	accounts    informers.ServiceAccountInformer
	secrets     informers.SecretInformer
	issue       Issue
	authorities func() ([]byte, error)
}

// New returns a controller that follows the informers, which others start; that of secrets knows only those of the type. The
// authorities are by whom the server is known; nil where that is not published.
func New(client client.CoreV1Interface, accounts informers.ServiceAccountInformer, secrets informers.SecretInformer, issue Issue, authorities func() ([]byte, error)) (*Controller, error) {
	err := secrets.Informer().AddIndexers(cache.Indexers{byAccount: func(obj any) ([]string, error) {
		secret := obj.(*corev1.Secret)
		return []string{secret.Namespace + "/" + secret.Annotations[corev1.ServiceAccountNameKey]}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index secrets: %w", err)
	}
	accounts.Informer()
	return &Controller{client: client, accounts: accounts, secrets: secrets, issue: issue, authorities: authorities}, nil
}

// Run keeps the secrets until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllerloop.Loop{
		Name: "token_secrets", Reconcile: c.reconcile,
		Sources: []controllerloop.Source{
			{Informer: c.accounts.Informer(), Keys: c.secretsOf},
			{Informer: c.secrets.Informer(), Keys: func(obj any) []string { return []string{keyOf(obj.(*corev1.Secret))} }},
		},
	}.Run(ctx)
}

// keyOf names a secret, and the account that it is of: once the secret is gone, nothing else tells that.
func keyOf(secret *corev1.Secret) string {
	return strings.Join([]string{secret.Namespace, secret.Name, secret.Annotations[corev1.ServiceAccountNameKey]}, "/")
}

func (c *Controller) secretsOf(obj any) []string {
	account := obj.(*corev1.ServiceAccount)
	// The index is there since New.
	secrets, _ := c.secrets.Informer().GetIndexer().ByIndex(byAccount, account.Namespace+"/"+account.Name)
	var keys []string
	for _, secret := range secrets {
		keys = append(keys, keyOf(secret.(*corev1.Secret)))
	}
	return keys
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	parts := strings.Split(key, "/")
	secret, err := c.secrets.Lister().Secrets(parts[0]).Get(parts[1])
	if apierrors.IsNotFound(err) {
		return c.forget(ctx, parts[0], parts[1], parts[2])
	}
	if err != nil || secret.DeletionTimestamp != nil {
		return err
	}
	account, err := c.account(ctx, secret)
	if err != nil {
		return err
	}
	if account == nil {
		return c.remove(ctx, secret)
	}
	return c.fill(ctx, account, secret)
}

// account returns the account of a secret, or nil if there is none, or another one of its name.
func (c *Controller) account(ctx context.Context, secret *corev1.Secret) (*corev1.ServiceAccount, error) {
	name, uid := secret.Annotations[corev1.ServiceAccountNameKey], types.UID(secret.Annotations[corev1.ServiceAccountUIDKey])
	if name == "" {
		return nil, nil
	}
	account, err := c.accounts.Lister().ServiceAccounts(secret.Namespace).Get(name)
	if err != nil || uid != "" && uid != account.UID {
		// It may be newer than what the informer knows.
		account, err = c.client.ServiceAccounts(secret.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err) || err == nil && uid != "" && uid != account.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the account %s of the secret %s/%s: %w", name, secret.Namespace, secret.Name, err)
	}
	return account, nil
}

// fill adds what the secret lacks.
func (c *Controller) fill(ctx context.Context, account *corev1.ServiceAccount, secret *corev1.Secret) error {
	updated := secret.DeepCopy()
	if updated.Data == nil {
		updated.Data = map[string][]byte{}
	}
	if c.authorities != nil {
		authorities, err := c.authorities()
		if err != nil {
			return err
		}
		updated.Data[corev1.ServiceAccountRootCAKey] = authorities
	}
	if len(updated.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
		updated.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if len(updated.Data[corev1.ServiceAccountTokenKey]) == 0 {
		token, err := c.issue(ctx, account, secret)
		if err != nil {
			return err
		}
		updated.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	if len(updated.Data) == len(secret.Data) && sameData(updated.Data, secret.Data) {
		return nil
	}
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, corev1.ServiceAccountUIDKey, string(account.UID))
	_, err := c.client.Secrets(secret.Namespace).Update(ctx, updated, metav1.UpdateOptions{})
	// What has changed or gone meanwhile is seen again, as it is then. One that may not be changed stays as it is.
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return fmt.Errorf("fill the secret %s/%s: %w", secret.Namespace, secret.Name, err)
}

func sameData(one, other map[string][]byte) bool {
	for key, value := range one {
		if !bytes.Equal(value, other[key]) {
			return false
		}
	}
	return true
}

// remove deletes a secret whose account is gone.
func (c *Controller) remove(ctx context.Context, secret *corev1.Secret) error {
	err := c.client.Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("remove the secret %s/%s with its account: %w", secret.Namespace, secret.Name, err)
}

// forget takes a secret that is gone out of its account's list.
func (c *Controller) forget(ctx context.Context, namespace, name, accountName string) error {
	if accountName == "" {
		return nil
	}
	account, err := c.client.ServiceAccounts(namespace).Get(ctx, accountName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the account %s/%s: %w", namespace, accountName, err)
	}
	names := func(secret corev1.ObjectReference) bool { return secret.Name == name }
	if !slices.ContainsFunc(account.Secrets, names) {
		return nil
	}
	// There may be one of its name that is of another type.
	if _, err = c.client.Secrets(namespace).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	account.Secrets = slices.DeleteFunc(account.Secrets, names)
	if _, err = c.client.ServiceAccounts(namespace).Update(ctx, account, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take the secret %s out of the account %s/%s: %w", name, namespace, accountName, err)
	}
	return nil
}
