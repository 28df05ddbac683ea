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
	"slices"
	"testing"
	"time"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// TestAuthoritiesOfAFastClock has authorities that a machine has made whose clock was years fast, before it was set right.
func TestAuthoritiesOfAFastClock(t *testing.T) {
	t.Parallel()
	h, o := newHost(), NewOptions()
	then := time.Now().Add(4 * 365 * day)
	o.Directory, _ = authority(t, then, then.Add(365*day))
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

// TestANewAuthoritySignsOnlyAfterItsSettlingTime has an authority that is due for a successor. Hosts may read the successor later than
// servers publish it.
func TestANewAuthoritySignsOnlyAfterItsSettlingTime(t *testing.T) {
	t.Parallel()
	h, o := newHost(), Options{Lifetime: time.Hour, AuthorityLifetime: day}
	directory, old := authority(t, time.Now().Add(-20*time.Hour), time.Now().Add(4*time.Hour))
	o.Directory = directory
	server := h.certificate(t, o)
	server.pass(t.Context())
	if n := len(authoritiesIn(h.apiService(t).Spec.CABundle)); n != 2 {
		t.Fatalf("%d authorities are published, want the old one and its successor", n)
	}
	if err := verified(old, leafOf(t, server)); err != nil {
		t.Errorf("a host that knows the old authority alone does not believe the server: %v", err)
	}

	signers, err := server.store.read(t.Context())
	if err != nil || len(signers) != 2 {
		t.Fatalf("the authorities are %v (%v)", signers, err)
	}
	successor, settled := signers[0], signers[0].Made().Add(time.Minute)
	for name, tc := range map[string]struct {
		now         time.Time
		unpublished bool
		want        bool
	}{
		"before it has settled":               {now: settled.Add(-time.Second)},
		"when it has settled":                 {now: settled, want: true},
		"when it could not be published":      {now: settled, unpublished: true},
		"when the old one is about to expire": {now: signers[1].NotAfter().Add(-2 * time.Hour), unpublished: true, want: true},
	} {
		if got := choose(signers, tc.now, o, !tc.unpublished); got.Equal(successor) != tc.want {
			t.Errorf("%s the successor signs: %t, want %t", name, !tc.want, tc.want)
		}
	}
}

// authority makes an authority, and returns the directory that it is in, and its certificate in PEM.
func authority(t *testing.T, from, to time.Time) (directory string, certPEM []byte) {
	t.Helper()
	directory = filepath.Join(t.TempDir(), "pki")
	if err := os.MkdirAll(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: authorityName},
		NotBefore: from, NotAfter: to, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	content := append(slices.Clone(certPEM), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(filepath.Join(directory, "serving-authorities.pem"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return directory, certPEM
}

func TestNobodyTakesForValidWhatIsFromTheFuture(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for ahead, want := range map[time.Duration]bool{-pki.ClockSkew: false, 0: false, pki.ClockSkew - 1: false, pki.ClockSkew: true, 24 * time.Hour: true} {
		if got := early(now.Add(ahead), now); got != want {
			t.Errorf("what was made %s from now is early: %t, want %t", ahead, got, want)
		}
	}
}
