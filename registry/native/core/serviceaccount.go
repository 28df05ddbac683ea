// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/kube-annex/annex/registry/resource"
)

// mountableSecretsAnnotation restricted which secrets a pod may mount; upstream warns of it.
const mountableSecretsAnnotation = "kubernetes.io/enforce-mountable-secrets"

func serviceAccounts() resource.Kind[*corev1.ServiceAccount] {
	return resource.Kind[*corev1.ServiceAccount]{
		Plural: "serviceaccounts", Singular: "serviceaccount", ShortNames: []string{"sa"},
		NewList:             func() runtime.Object { return &corev1.ServiceAccountList{} },
		PrepareForCreate:    func(_ context.Context, account *corev1.ServiceAccount) { keepNamesOfSecrets(account) },
		PrepareForUpdate:    func(_ context.Context, account, _ *corev1.ServiceAccount) { keepNamesOfSecrets(account) },
		QualifiedFinalizers: true,
		Warnings:            warnOfServiceAccount,
		UnconditionalUpdate: true,
		ReturnDeleted:       true,
	}
}

// servedServiceAccounts come after secrets, which tokens can be bound to.
func servedServiceAccounts(tokens Tokens) resource.Served {
	kind := serviceAccounts()
	served := kind.Served()
	served.Guests = map[schema.GroupVersion][]runtime.Object{authenticationv1.SchemeGroupVersion: {&authenticationv1.TokenRequest{}}}
	served.Defaults = map[runtime.Object]func(any){
		&authenticationv1.TokenRequest{}: func(obj any) { defaultTokenRequest(obj.(*authenticationv1.TokenRequest)) },
	}
	served.Install = func(group *resource.Group) error {
		accounts, err := kind.InstallStore(group)
		if err != nil {
			return err
		}
		secrets, _ := group.Storage("secrets").(rest.Getter)
		if tokens.Attach != nil {
			tokens.Attach(accounts, secrets)
		}
		if tokens.Issuer != nil {
			group.Add(kind.Plural+"/token", &tokenREST{accounts: accounts, secrets: secrets, issuer: tokens.Issuer})
		}
		return nil
	}
	return served
}

// keepNamesOfSecrets drops all else that references hold: the secrets are always in the account's namespace.
func keepNamesOfSecrets(account *corev1.ServiceAccount) {
	for i, secret := range account.Secrets {
		account.Secrets[i] = corev1.ObjectReference{Name: secret.Name}
	}
}

func warnOfServiceAccount(_ context.Context, account, old *corev1.ServiceAccount) []string {
	_, asks := account.Annotations[mountableSecretsAnnotation]
	if old != nil {
		if _, asked := old.Annotations[mountableSecretsAnnotation]; asked {
			return nil
		}
	}
	if !asks {
		return nil
	}
	return []string{"metadata.annotations[" + mountableSecretsAnnotation + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
}
