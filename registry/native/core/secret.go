// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"crypto/tls"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/resource"
)

func secrets() resource.Kind[*corev1.Secret] {
	return resource.Kind[*corev1.Secret]{
		Plural: "secrets", Singular: "secret",
		NewList:        func() runtime.Object { return &corev1.SecretList{} },
		Default:        defaultSecret,
		Validate:       validateSecret,
		ValidateUpdate: validateSecretUpdate,
		Warnings:       warnOfSecret,
		SelectableFields: map[string]func(*corev1.Secret) string{
			"type": func(secret *corev1.Secret) string { return string(secret.Type) },
		},
		Columns: []resource.Column[*corev1.Secret]{
			{
				Name: "Type", Description: corev1.Secret{}.SwaggerDoc()["type"],
				Of: func(secret *corev1.Secret) any { return string(secret.Type) },
			},
			{
				Name: "Data", Description: corev1.Secret{}.SwaggerDoc()["data"],
				Of: func(secret *corev1.Secret) any { return int64(len(secret.Data)) },
			},
		},
		QualifiedFinalizers: true,
		UnconditionalUpdate: true,
	}
}

// defaultSecret moves stringData, which only requests carry, into data: what is stored and returned has data alone.
func defaultSecret(secret *corev1.Secret) {
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
	if len(secret.StringData) > 0 && secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}

func validateSecret(secret *corev1.Secret) field.ErrorList {
	data := field.NewPath("data")
	errs := validateKeys(data, secret.Data)
	if sizeOf(secret.Data) > maxDataSize {
		errs = append(errs, field.TooLong(data, "", maxDataSize))
	}
	return append(errs, validateSecretType(secret, data)...)
}

// validateSecretType judges what the well-known types promise to their readers.
func validateSecretType(secret *corev1.Secret, data *field.Path) field.ErrorList {
	has := func(key string) bool {
		_, ok := secret.Data[key]
		return ok
	}
	need := func(keys ...string) field.ErrorList {
		var errs field.ErrorList
		for _, key := range keys {
			if !has(key) {
				errs = append(errs, field.Required(data.Key(key), ""))
			}
		}
		return errs
	}
	needJSON := func(key string) field.ErrorList {
		if errs := need(key); errs != nil {
			return errs
		}
		if err := json.Unmarshal(secret.Data[key], &map[string]any{}); err != nil {
			return field.ErrorList{field.Invalid(data.Key(key), "<secret contents redacted>", err.Error())}
		}
		return nil
	}
	switch secret.Type {
	case corev1.SecretTypeServiceAccountToken:
		if secret.Annotations[corev1.ServiceAccountNameKey] == "" {
			return field.ErrorList{field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), "")}
		}
	case corev1.SecretTypeDockercfg:
		return needJSON(corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		return needJSON(corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		if !has(corev1.BasicAuthUsernameKey) && !has(corev1.BasicAuthPasswordKey) {
			return need(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(secret.Data[corev1.SSHAuthPrivateKey]) == 0 {
			return field.ErrorList{field.Required(data.Key(corev1.SSHAuthPrivateKey), "")}
		}
	case corev1.SecretTypeTLS:
		return need(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return nil
}

func validateSecretUpdate(secret, old *corev1.Secret) field.ErrorList {
	errs := validateSecret(secret)
	errs = append(errs, validation.ValidateImmutableField(secret.Type, old.Type, field.NewPath("type"))...)
	if old.Immutable != nil && *old.Immutable {
		errs = append(errs, validateFrozen(secret.Immutable, frozen{"data", secret.Data, old.Data})...)
	}
	return errs
}

func warnOfSecret(_ context.Context, secret, _ *corev1.Secret) []string {
	if secret.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}
