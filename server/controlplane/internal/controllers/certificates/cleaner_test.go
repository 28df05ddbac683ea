// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
)

func TestUseless(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "test"}, key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, err := cert.EncodeCertificates(authority)
	if err != nil {
		t.Fatal(err)
	}
	made := time.Now()
	decided := func(kind certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
		return []certificatesv1.CertificateSigningRequestCondition{{Type: kind, Status: corev1.ConditionTrue, LastUpdateTime: metav1.NewTime(made)}}
	}
	const minute = time.Minute
	for name, tc := range map[string]struct {
		status certificatesv1.CertificateSigningRequestStatus
		age    time.Duration
		want   string
	}{
		"pending":                      {age: 24*time.Hour - minute},
		"pending for too long":         {age: 24*time.Hour + minute, want: "nobody approved it"},
		"approved":                     {certificatesv1.CertificateSigningRequestStatus{Conditions: decided("Approved")}, 24*time.Hour - minute, ""},
		"approved and never signed":    {certificatesv1.CertificateSigningRequestStatus{Conditions: decided("Approved")}, 24*time.Hour + minute, "nobody signed it"},
		"issued":                       {certificatesv1.CertificateSigningRequestStatus{Conditions: decided("Approved"), Certificate: certPEM}, time.Hour - minute, ""},
		"issued for some time":         {certificatesv1.CertificateSigningRequestStatus{Conditions: decided("Approved"), Certificate: certPEM}, time.Hour + minute, "its certificate was issued"},
		"expired":                      {certificatesv1.CertificateSigningRequestStatus{Conditions: decided("Approved"), Certificate: certPEM}, 100 * 365 * 24 * time.Hour, "its certificate has expired"},
		"denied":                       {certificatesv1.CertificateSigningRequestStatus{Conditions: decided("Denied")}, time.Hour - minute, ""},
		"denied for some time":         {certificatesv1.CertificateSigningRequestStatus{Conditions: decided("Denied")}, time.Hour + minute, "it was denied, or failed"},
		"failed for some time":         {certificatesv1.CertificateSigningRequestStatus{Conditions: decided("Failed")}, time.Hour + minute, "it was denied, or failed"},
		"with a condition of somebody": {certificatesv1.CertificateSigningRequestStatus{Conditions: decided("example.com/Seen")}, 1000 * time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}, Status: tc.status}
			if got := useless(csr, made.Add(tc.age)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestUsages(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in      []certificatesv1.KeyUsage
		usage   x509.KeyUsage
		failure string
	}{
		"all":                     {[]certificatesv1.KeyUsage{"client auth", "digital signature", "key encipherment"}, x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ""},
		"client auth alone":       {[]certificatesv1.KeyUsage{"client auth"}, 0, ""},
		"not for clients":         {[]certificatesv1.KeyUsage{"digital signature"}, 0, "missing required usage for client certificate: client auth"},
		"for servers, too":        {[]certificatesv1.KeyUsage{"client auth", "server auth"}, 0, "invalid usage for client certificate: server auth"},
		"for authorities as well": {[]certificatesv1.KeyUsage{"client auth", "cert sign"}, 0, "invalid usage for client certificate: cert sign"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			usage, uses, err := usages(tc.in)
			if failed := err != nil; failed != (tc.failure != "") || failed && err.Error() != tc.failure {
				t.Fatalf("got the error %v, want %q", err, tc.failure)
			}
			if err == nil && (usage != tc.usage || len(uses) != 1 || uses[0] != x509.ExtKeyUsageClientAuth) {
				t.Errorf("got %b, %v; want %b for clients", usage, uses, tc.usage)
			}
		})
	}
}
