// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestIssuedCertificatesEndWithTheirAuthority at the latest, and begin earlier than now by what clocks may differ.
func TestIssuedCertificatesEndWithTheirAuthority(t *testing.T) {
	t.Parallel()
	const authorityValidity = 10 * time.Hour
	authority := newSigner(t, authorityValidity)
	for name, issue := range map[string]struct {
		issue func(validity time.Duration) []byte
		early time.Duration
	}{
		"serving": {early: time.Hour, issue: func(validity time.Duration) []byte {
			certPEM, keyPEM, notAfter, err := authority.Serving("server", validity, "localhost")
			if err != nil {
				t.Fatal(err)
			}
			pair, err := tls.X509KeyPair(certPEM, keyPEM)
			if err != nil {
				t.Fatal(err)
			}
			if !pair.Leaf.NotAfter.Equal(notAfter) {
				t.Errorf("the certificate ends at %s, and not at %s as was said", pair.Leaf.NotAfter, notAfter)
			}
			return certPEM
		}},
		"requested": {early: 5 * time.Minute, issue: func(validity time.Duration) []byte {
			certPEM, err := authority.Answer(request(t), x509.KeyUsageDigitalSignature, nil, validity)
			if err != nil {
				t.Fatal(err)
			}
			return certPEM
		}},
	} {
		for validity, want := range map[time.Duration]time.Duration{
			time.Hour:             time.Hour,
			2 * authorityValidity: authorityValidity,
			authorityValidity / 2: authorityValidity / 2,
		} {
			before := time.Now()
			cert, err := parseCertificate(issue.issue(validity))
			if err != nil {
				t.Fatal(err)
			}
			if err := cert.CheckSignatureFrom(authority.cert); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for what, moment := range map[string]struct{ got, want time.Time }{
				"ends":   {cert.NotAfter, before.Add(want)},
				"begins": {cert.NotBefore, before.Add(-issue.early)},
			} {
				if difference := moment.got.Sub(moment.want).Abs(); difference > time.Minute {
					t.Errorf("%s, for %s: it %s at %s, want %s", name, validity, what, moment.got, moment.want)
				}
			}
		}
	}
}

// TestAnswerTakesSubjectAndNamesFromTheRequest and neither extensions nor an authority that has expired.
func TestAnswerTakesSubjectAndNamesFromTheRequest(t *testing.T) {
	t.Parallel()
	certPEM, err := newSigner(t, time.Hour).Answer(request(t), x509.KeyUsageKeyEncipherment, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := parseCertificate(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	type content struct {
		User   string
		Groups []string
		Names  []string
		Usage  x509.KeyUsage
		Uses   []x509.ExtKeyUsage
		IsCA   bool
	}
	want := content{
		User: "jane", Groups: []string{"one", "two"}, Names: []string{"example.com"},
		Usage: x509.KeyUsageKeyEncipherment, Uses: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	got := content{cert.Subject.CommonName, cert.Subject.Organization, cert.DNSNames, cert.KeyUsage, cert.ExtKeyUsage, cert.IsCA}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("certificate (-want,+got):\n%s", diff)
	}
	if _, err = newSigner(t, -time.Second).Answer(request(t), 0, nil, time.Hour); err == nil || !strings.Contains(err.Error(), "the authority test has expired on ") {
		t.Errorf("an authority that has expired answered with %v", err)
	}
}

func TestSignersAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	one, other := newSigner(t, time.Hour), newSigner(t, time.Hour)
	leaf, leafKey, _, err := one.Serving("leaf", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if one.Equal(nil) || (*Signer)(nil).Equal(one) {
		t.Error("no authority equals one")
	}
	certs, keys := EncodeSigners([]*Signer{one, other})
	for name, tc := range map[string]struct {
		certs, keys []byte
		// problem is part of the error; empty for none.
		problem string
	}{
		"as written":            {certs: certs, keys: keys},
		"in one file":           {certs: append(certs[:len(certs):len(certs)], keys...), keys: append(certs[:len(certs):len(certs)], keys...)},
		"a key is missing":      {certs: certs, keys: one.keyPEM, problem: "there are 2 certificates and 1 keys"},
		"keys in other order":   {certs: certs, keys: append(other.keyPEM[:len(other.keyPEM):len(other.keyPEM)], one.keyPEM...), problem: "key 1 does not belong to its certificate"},
		"a server's":            {certs: leaf, keys: leafKey, problem: "certificate 1 is not a certificate authority"},
		"a damaged certificate": {certs: []byte("-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"), keys: one.keyPEM, problem: "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signers, err := ReadSigners(tc.certs, tc.keys)
			if tc.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("got %v, want %q", err, tc.problem)
				}
				return
			}
			if err != nil || len(signers) != 2 || !signers[0].Equal(one) || !signers[1].Equal(other) || signers[0].Equal(other) {
				t.Errorf("got %d authorities (%v), want the two in their order", len(signers), err)
			}
		})
	}
}

func TestSignersInADirectory(t *testing.T) {
	t.Parallel()
	directory := open(t)
	if signers, err := directory.LoadSigners("authorities"); err != nil || signers != nil {
		t.Errorf("without a file: %v, %v, want none", signers, err)
	}
	signer := newSigner(t, time.Hour)
	if err := directory.SaveSigners("authorities", []*Signer{signer}); err != nil {
		t.Fatal(err)
	}
	if signers, err := directory.LoadSigners("authorities"); err != nil || len(signers) != 1 || !signers[0].Equal(signer) {
		t.Errorf("after saving: %v, %v, want the one that was saved", signers, err)
	}
	write(t, directory.SignersFile("authorities"), nil)
	if _, err := directory.LoadSigners("authorities"); err == nil || !strings.Contains(err.Error(), "restore it from a backup") {
		t.Errorf("an empty file: %v, want an error that says what to do", err)
	}
}

func TestReadSignerRefusesWhatCannotSign(t *testing.T) {
	t.Parallel()
	one, other := newSigner(t, time.Hour), newSigner(t, time.Hour)
	leaf, leafKey, _, err := one.Serving("leaf", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		cert, key []byte
		problem   string
	}{
		"an authority":       {cert: one.certPEM, key: one.keyPEM},
		"another key":        {cert: one.certPEM, key: other.keyPEM, problem: "does not belong to the certificate"},
		"a server's":         {cert: leaf, key: leafKey, problem: "is not a certificate authority"},
		"a damaged key":      {cert: one.certPEM, key: one.keyPEM[:len(one.keyPEM)/2], problem: "read the authority in"},
		"a file that is not": {cert: one.certPEM, problem: "read the authority in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certFile, keyFile := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "ca.key")
			write(t, certFile, tc.cert)
			if tc.key != nil {
				write(t, keyFile, tc.key)
			}
			_, err := ReadSigner(certFile, keyFile)
			if tc.problem == "" && err != nil || tc.problem != "" && (err == nil || !strings.Contains(err.Error(), tc.problem)) {
				t.Errorf("got %v, want %q", err, tc.problem)
			}
		})
	}
}

// TestAFailedWriteLeavesNothing has a directory where the file would be.
func TestAFailedWriteLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	if err := os.MkdirAll(filepath.Join(file, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(file, []byte("content"), 0o600); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("after a failed write there are %v, %v, want the directory only", entries, err)
	}
}

func newSigner(t *testing.T, validity time.Duration) *Signer {
	t.Helper()
	signer, err := NewSigner("test", validity)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// request asks for a certificate of a user, and to be an authority.
func request(t *testing.T) *x509.CertificateRequest {
	t.Helper()
	key, _, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	authority, err := asn1.Marshal(struct{ IsCA bool }{true})
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "jane", Organization: []string{"one", "two"}}, DNSNames: []string{"example.com"},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: authority}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
