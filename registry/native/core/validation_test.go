// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func fields(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, string(err.Type)+" "+err.Field)
	}
	return out
}

func TestValidateSecret(t *testing.T) {
	t.Parallel()
	data := func(keys ...string) map[string][]byte {
		out := map[string][]byte{}
		for _, key := range keys {
			out[key] = []byte("{}")
		}
		return out
	}
	for name, tc := range map[string]struct {
		in   corev1.Secret
		want []string
	}{
		"empty":                       {corev1.Secret{Type: "Opaque"}, nil},
		"a key with a slash":          {corev1.Secret{Data: data("a/b")}, []string{"FieldValueInvalid data[a/b]"}},
		"too large":                   {corev1.Secret{Data: map[string][]byte{"a": make([]byte, maxDataSize), "b": {1}}}, []string{"FieldValueTooLong data"}},
		"as large as may be":          {corev1.Secret{Data: map[string][]byte{"a": make([]byte, maxDataSize)}}, nil},
		"TLS":                         {corev1.Secret{Type: "kubernetes.io/tls", Data: data("tls.crt", "tls.key")}, nil},
		"TLS without a key":           {corev1.Secret{Type: "kubernetes.io/tls", Data: data("tls.crt")}, []string{"FieldValueRequired data[tls.key]"}},
		"basic auth, a user":          {corev1.Secret{Type: "kubernetes.io/basic-auth", Data: data("username")}, nil},
		"basic auth, nothing":         {corev1.Secret{Type: "kubernetes.io/basic-auth"}, []string{"FieldValueRequired data[username]", "FieldValueRequired data[password]"}},
		"SSH, an empty key":           {corev1.Secret{Type: "kubernetes.io/ssh-auth", Data: map[string][]byte{"ssh-privatekey": nil}}, []string{"FieldValueRequired data[ssh-privatekey]"}},
		"docker, JSON":                {corev1.Secret{Type: "kubernetes.io/dockerconfigjson", Data: data(".dockerconfigjson")}, nil},
		"docker, not JSON":            {corev1.Secret{Type: "kubernetes.io/dockercfg", Data: map[string][]byte{".dockercfg": []byte("x")}}, []string{"FieldValueInvalid data[.dockercfg]"}},
		"a token of no account":       {corev1.Secret{Type: "kubernetes.io/service-account-token"}, []string{"FieldValueRequired metadata.annotations[kubernetes.io/service-account.name]"}},
		"somebody's own type of data": {corev1.Secret{Type: "example.com/x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, fields(validateSecret(&tc.in))); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestSecretContentsAreNotTold(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{Type: "kubernetes.io/dockercfg", Data: map[string][]byte{".dockercfg": []byte("hunter2")}}
	if message := validateSecret(secret).ToAggregate().Error(); strings.Contains(message, "hunter2") {
		t.Errorf("the error tells the secret: %s", message)
	}
}

func TestValidateUpdates(t *testing.T) {
	t.Parallel()
	frozen := corev1.Secret{Type: "Opaque", Immutable: ptr.To(true), Data: map[string][]byte{"a": []byte("1")}}
	secret := func(change func(*corev1.Secret)) []string {
		changed := frozen.DeepCopy()
		change(changed)
		return fields(validateSecretUpdate(changed, &frozen))
	}
	frozenMap := corev1.ConfigMap{Immutable: ptr.To(true), BinaryData: map[string][]byte{"a": []byte("1")}}
	configMap := func(change func(*corev1.ConfigMap)) []string {
		changed := frozenMap.DeepCopy()
		change(changed)
		return fields(validateConfigMapUpdate(changed, &frozenMap))
	}
	for name, tc := range map[string]struct{ got, want []string }{
		"a label on an immutable secret":     {secret(func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} }), nil},
		"thawing a secret":                   {secret(func(s *corev1.Secret) { s.Immutable = nil }), []string{"FieldValueForbidden immutable"}},
		"data of an immutable secret":        {secret(func(s *corev1.Secret) { s.Data = nil }), []string{"FieldValueForbidden data"}},
		"another type":                       {secret(func(s *corev1.Secret) { s.Type = "x.example.com/y" }), []string{"FieldValueInvalid type"}},
		"thawing a ConfigMap":                {configMap(func(c *corev1.ConfigMap) { c.Immutable = ptr.To(false) }), []string{"FieldValueForbidden immutable"}},
		"binary data of an immutable map":    {configMap(func(c *corev1.ConfigMap) { c.BinaryData = nil }), []string{"FieldValueForbidden binaryData"}},
		"more of it":                         {configMap(func(c *corev1.ConfigMap) { c.BinaryData["b"] = nil }), []string{"FieldValueForbidden binaryData"}},
		"a key that is in both kinds of map": {configMap(func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": "1"} }), []string{"FieldValueInvalid data[a]", "FieldValueForbidden data"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestValidateNamespace(t *testing.T) {
	t.Parallel()
	ns := &corev1.Namespace{Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes", "example.com/x", "other"}}}
	if diff := cmp.Diff([]string{"FieldValueInvalid spec.finalizers"}, fields(validateNamespace(ns))); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}
