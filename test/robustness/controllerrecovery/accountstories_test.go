// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/kube-annex/annex/test/framework/poll"
)

// tokens makes accounts with tokens, deletes a part of the accounts, and makes some anew. It also takes away what each namespace has.
func (s *story) tokens(ctx context.Context) error {
	namespace, err := s.namespace(ctx, "")
	if err != nil {
		return err
	}
	made := map[string]*unstructured.Unstructured{}
	for _, name := range []string{"stays", "goes", "comes-back"} {
		if made[name], err = s.account(ctx, namespace, name); err != nil {
			return err
		}
		for i := range 3 {
			secret, err := s.tokenOf(ctx, namespace, name, fmt.Sprintf("%s-%d", name, i))
			if err != nil {
				return err
			}
			if name == "comes-back" {
				// Until it is filled it might be one of the account that comes.
				if err := s.filled(ctx, secret); err != nil {
					return err
				}
			}
		}
		s.pause(ctx)
	}
	for _, name := range []string{"goes", "comes-back"} {
		for i := range 3 {
			s.ledger.forget(id{resource: "secrets", namespace: namespace, name: fmt.Sprintf("%s-%d", name, i)})
		}
		s.ledger.forget(idOf(accounts, made[name]))
		if err := s.remove(ctx, accounts, made[name], ""); err != nil {
			return err
		}
		s.pause(ctx)
	}
	if _, err = s.account(ctx, namespace, "comes-back"); err != nil {
		return err
	}
	if _, err = s.tokenOf(ctx, namespace, "comes-back", "comes-back-new"); err != nil {
		return err
	}
	return s.disturb(ctx, namespace)
}

func (s *story) account(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	account, _, err := s.create(ctx, accounts, described(accounts, "ServiceAccount", namespace, name, nil))
	if err == nil {
		s.ledger.keepIf(accounts, account, nil)
	}
	return account, err
}

func (s *story) tokenOf(ctx context.Context, namespace, account, name string) (*unstructured.Unstructured, error) {
	secret := described(secrets, "Secret", namespace, name, map[string]any{"type": "kubernetes.io/service-account-token"})
	secret.SetAnnotations(map[string]string{"kubernetes.io/service-account.name": account})
	created, _, err := s.create(ctx, secrets, secret)
	if err == nil {
		s.ledger.keepIf(secrets, created, isFilled)
	}
	return created, err
}

// isFilled is nil for a secret with all that clients need.
func isFilled(secret *unstructured.Unstructured) error {
	for _, key := range []string{"token", "ca.crt", "namespace"} {
		if value, _, _ := unstructured.NestedString(secret.Object, "data", key); value == "" {
			return fmt.Errorf("has no %s", key)
		}
	}
	return nil
}

func (s *story) filled(ctx context.Context, secret *unstructured.Unstructured) error {
	return poll.Until(ctx, patience, func(ctx context.Context) error {
		now, err := s.get(ctx, secrets, secret.GetNamespace(), secret.GetName())
		if err != nil {
			return err
		}
		if err := isFilled(now); err != nil {
			return fmt.Errorf("%s %w", idOf(secrets, secret), err)
		}
		return nil
	})
}

// disturb has controllers make anew what each namespace has.
func (s *story) disturb(ctx context.Context, namespace string) error {
	for _, of := range []struct {
		schema.GroupVersionResource
		name string
	}{{accounts, "default"}, {configMaps, "kube-root-ca.crt"}} {
		err := poll.Until(ctx, patience, func(ctx context.Context) error {
			obj, err := s.get(ctx, of.GroupVersionResource, namespace, of.name)
			if err != nil {
				return err
			}
			return s.remove(ctx, of.GroupVersionResource, obj, "")
		})
		if err != nil {
			return err
		}
		s.pause(ctx)
	}
	return poll.Until(ctx, patience, func(ctx context.Context) error {
		_, err := s.patch(ctx, configMaps, namespace, "kube-root-ca.crt", `{"data":{"ca.crt":"nobody"}}`)
		return err
	})
}

// certificates asks for some, a part of which are approved.
func (s *story) certificates(ctx context.Context) error {
	for i, decision := range []string{"Approved", "Denied", "", "Approved", "Approved"} {
		key, request, err := newRequest(prefix + s.name)
		if err != nil {
			return err
		}
		csr, err := s.global(ctx, signingRequest, "CertificateSigningRequest", fmt.Sprintf("-%d", i), map[string]any{"spec": map[string]any{
			"request": base64.StdEncoding.EncodeToString(request), "signerName": "kubernetes.io/kube-apiserver-client", "usages": []any{"client auth"},
		}})
		if err != nil {
			return err
		}
		s.ledger.keepIf(signingRequest, csr, func(csr *unstructured.Unstructured) error { return isIssued(csr, key, decision == "Approved") })
		s.pause(ctx)
		if decision == "" {
			continue
		}
		_, err = s.change(ctx, signingRequest, "", csr.GetName(), "approval", func(csr *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(csr.Object, []any{map[string]any{"type": decision, "status": "True", "reason": "Upkeep"}}, "status", "conditions")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func newRequest(name string) (publicKey crypto.PublicKey, request []byte, err error) {
	keyPEM, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, nil, err
	}
	key, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, nil, err
	}
	if request, err = cert.MakeCSR(key, &pkix.Name{CommonName: name}, nil, nil); err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	return parsed.PublicKey, request, nil
}

// isIssued is nil for a request that has a certificate for its key exactly if it is to have one.
func isIssued(csr *unstructured.Unstructured, key crypto.PublicKey, want bool) error {
	encoded, _, _ := unstructured.NestedString(csr.Object, "status", "certificate")
	if (encoded != "") != want {
		return fmt.Errorf("has a certificate: %t, want %t", encoded != "", want)
	}
	if !want {
		return nil
	}
	content, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return errors.New("has a certificate that is none")
	}
	issued, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	if public, ok := issued.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(key) {
		return errors.New("has a certificate for another key")
	}
	return nil
}

// identity makes the Lease of a replica that was killed some time ago. Who leads next takes it away.
func (s *story) identity(ctx context.Context) error {
	lease := described(leases, "Lease", metav1.NamespaceSystem, prefix+s.name, labelled(map[string]any{"spec": map[string]any{
		"holderIdentity": "killed", "leaseDurationSeconds": int64(3600), "renewTime": time.Now().Add(-2 * time.Hour).UTC().Format(metav1.RFC3339Micro),
	}}, map[string]any{identityLabel: identityValue}))
	_, _, err := s.create(ctx, leases, lease)
	return err
}
