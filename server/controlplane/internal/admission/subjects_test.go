// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

func TestNobodyBecomesAMemberOfSystemMasters(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := func(groups ...string) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "x", Organization: groups}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	for name, tc := range map[string]struct {
		signer, subresource string
		request             []byte
		object              runtime.Object // in place of a request for a certificate
		want                string
	}{
		"of no group":                  {signer: certificatesv1.KubeAPIServerClientSignerName, request: of()},
		"of other groups":              {signer: certificatesv1.KubeAPIServerClientSignerName, request: of("developers", "system:nodes")},
		"of system:masters":            {signer: certificatesv1.KubeAPIServerClientSignerName, request: of("developers", "system:masters"), want: "is not allowed"},
		"of system:masters elsewhere":  {signer: "example.com/a", request: of("system:masters")},
		"of system:masters, an update": {signer: certificatesv1.KubeAPIServerClientSignerName, subresource: "status", request: of("system:masters")},
		"not PEM":                      {signer: certificatesv1.KubeAPIServerClientSignerName, request: []byte("hello"), want: "read spec.request"},
		"no request in PEM":            {signer: certificatesv1.KubeAPIServerClientSignerName, request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST"}), want: "read spec.request"},
		"an object of another kind":    {object: &corev1.Secret{}, want: "not a CertificateSigningRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.object == nil {
				tc.object = &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: tc.signer, Request: tc.request}}
			}
			request := admission.NewAttributesRecord(tc.object, nil, certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"), "", "csr",
				signingRequests, tc.subresource, admission.Create, nil, false, nil)
			checkRefusal(t, NewCertificateSubjectRestriction().Validate(t.Context(), request, nil), tc.want)
		})
	}
}
