// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestAuthoritiesOfAFastClock has authorities that a machine has made whose clock was years fast, before it was set right.
func TestAuthoritiesOfAFastClock(t *testing.T) {
	t.Parallel()
	h, o := newHost(), NewOptions()
	o.Directory = filepath.Join(t.TempDir(), "pki")
	if err := os.MkdirAll(o.Directory, 0o700); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(4 * 365 * day)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: authorityName},
		NotBefore: then, NotAfter: then.Add(365 * day), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	content := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(filepath.Join(o.Directory, "serving-authorities.pem"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	server := h.certificate(t, o)
	server.pass(t.Context())
	if err := verified(h.apiService(t).Spec.CABundle, leafOf(t, server)); err != nil {
		t.Errorf("the host does not believe the server: %v", err)
	}

	// The clock is set back while the server runs.
	before := leafOf(t, server)
	server.current.issued = time.Now().Add(time.Hour + time.Minute)
	server.pass(t.Context())
	if leafOf(t, server).Equal(before) {
		t.Error("a certificate that begins in the future has been kept")
	}
}
