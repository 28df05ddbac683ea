// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccount keeps a ServiceAccount "default" in every namespace that is not being deleted.
package serviceaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	informers "k8s.io/client-go/informers/core/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/controllerloop"
)

const accountName = "default"

// workers is how many namespaces get their account at once.
const workers = 2

// Controller makes accounts that are missing.
type Controller struct {
	client     client.ServiceAccountsGetter
	namespaces informers.NamespaceInformer
	accounts   informers.ServiceAccountInformer
}

// New returns a controller that follows the informers, which others start.
func New(client client.ServiceAccountsGetter, namespaces informers.NamespaceInformer, accounts informers.ServiceAccountInformer) *Controller {
	// Asking for them is what has them started.
	namespaces.Informer()
	accounts.Informer()
	return &Controller{client: client, namespaces: namespaces, accounts: accounts}
}

// Run keeps the accounts until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllerloop.Loop{
		Name: "default_accounts", Workers: workers, Reconcile: c.reconcile,
		Sources: []controllerloop.Source{
			{Informer: c.namespaces.Informer(), Keys: func(obj any) []string { return []string{obj.(*corev1.Namespace).Name} }},
			{Informer: c.accounts.Informer(), Keys: func(obj any) []string {
				if account := obj.(*corev1.ServiceAccount); account.Name == accountName {
					return []string{account.Namespace}
				}
				return nil
			}},
		},
	}.Run(ctx)
}

func (c *Controller) reconcile(ctx context.Context, name string) error {
	namespace, err := c.namespaces.Lister().Get(name)
	if apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err = c.accounts.Lister().ServiceAccounts(name).Get(accountName); !apierrors.IsNotFound(err) {
		return err
	}
	_, err = c.client.ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: accountName}}, metav1.CreateOptions{})
	// The namespace may have gone, or be going, by now.
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf("make the account %s of the namespace %s: %w", accountName, name, err)
}
