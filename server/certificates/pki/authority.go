// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"sync"
	"time"
)

const (
	authorityValidity = 10 * 365 * 24 * time.Hour
	// ClockSkew is how far the clocks of two machines may differ: certificates begin as much earlier than they are made.
	ClockSkew = time.Hour
)

// Authority is a certificate authority that signs serving and client certificates.
type Authority struct {
	directory *Directory
	name      string
	key       crypto.Signer

	mu      sync.Mutex
	cert    *x509.Certificate
	certPEM []byte
}

// Authority loads the authority in <name>.crt and <name>.key, or makes it where neither file exists.
//
// It never replaces a key: a damaged authority is an error. A certificate that is missing, two thirds through or of a time to come
// is issued again for the same key, which everything signed so far still verifies against.
func (d *Directory) Authority(name, commonName string) (*Authority, error) {
	authority := &Authority{directory: d, name: name}
	certPEM, certErr := os.ReadFile(d.certFile(name))
	keyPEM, keyErr := os.ReadFile(d.keyFile(name))
	certMissing, keyMissing := errors.Is(certErr, fs.ErrNotExist), errors.Is(keyErr, fs.ErrNotExist)
	switch {
	case certErr != nil && !certMissing:
		return nil, fmt.Errorf("read certificate authority: %w", certErr)
	case keyErr != nil && !keyMissing:
		return nil, fmt.Errorf("read key of certificate authority: %w", keyErr)
	case keyMissing && !certMissing:
		return nil, d.damaged(name, d.keyFile(name), errors.New("the file is missing"))
	case keyMissing:
		return authority, authority.create(commonName)
	}

	var err error
	if authority.key, err = parseKey(keyPEM); err != nil {
		return nil, d.damaged(name, d.keyFile(name), err)
	}
	if certMissing {
		return authority, authority.issue(commonName)
	}
	if authority.cert, err = parseCertificate(certPEM); err != nil {
		return nil, d.damaged(name, d.certFile(name), err)
	}
	authority.certPEM = certPEM
	switch {
	case !samePublicKey(authority.cert.PublicKey, authority.key.Public()):
		return nil, d.damaged(name, d.certFile(name), fmt.Errorf("it does not belong to the key in %s", d.keyFile(name)))
	case !authority.cert.IsCA:
		return nil, d.damaged(name, d.certFile(name), errors.New("it is not a certificate authority"))
	}
	_, err = authority.Renew()
	return authority, err
}

// Renew issues the certificate again where that is due, for the same key, and tells whether it did.
func (a *Authority) Renew() (bool, error) {
	cert, _ := a.current()
	if !a.directory.lifetimes.due(cert) {
		return false, nil
	}
	err := a.issue(cert.Subject.CommonName)
	return err == nil, err
}

// CertFile returns the file that holds the authority's certificate, in PEM.
func (a *Authority) CertFile() string { return a.directory.certFile(a.name) }

// KeyFile is where the authority's key is, for who issues certificates in its name.
func (a *Authority) KeyFile() string { return a.directory.keyFile(a.name) }

// CertPEM returns the authority's certificate.
func (a *Authority) CertPEM() []byte {
	_, certPEM := a.current()
	return certPEM
}

func (a *Authority) current() (*x509.Certificate, []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cert, a.certPEM
}

func (a *Authority) create(commonName string) error {
	key, keyPEM, err := newKey()
	if err != nil {
		return err
	}
	// The key goes first: a crash in between leaves a key without a certificate, which the next start completes.
	if err := WriteFile(a.directory.keyFile(a.name), keyPEM, 0o600); err != nil {
		return fmt.Errorf("write key of certificate authority: %w", err)
	}
	a.key = key
	return a.issue(commonName)
}

func (a *Authority) issue(commonName string) error {
	now := a.directory.lifetimes.Clock.Now()
	cert, certPEM, err := selfSign(commonName, a.key, now, x509.Certificate{
		NotAfter: now.Add(a.directory.lifetimes.Authority),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA:     true,
	})
	if err != nil {
		return err
	}
	if err := WriteFile(a.CertFile(), certPEM, 0o644); err != nil {
		return fmt.Errorf("write certificate authority: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cert, a.certPEM = cert, certPEM
	return nil
}

func (d *Directory) damaged(name, file string, why error) error {
	return fmt.Errorf("certificate authority file %s cannot be used: %w; restore it from a backup, or delete both %s and %s "+
		"to make a new authority (clients then need the new one)", file, why, d.certFile(name), d.keyFile(name))
}

// selfSign completes the template and signs it with its own key.
func selfSign(commonName string, key crypto.Signer, now time.Time, template x509.Certificate) (*x509.Certificate, []byte, error) {
	serial, err := serialNumber()
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = serial
	template.Subject = pkix.Name{CommonName: commonName}
	template.NotBefore = now.Add(-ClockSkew)
	template.BasicConstraintsValid = true
	return sign(&template, &template, key.Public(), key)
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, []byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate of %s: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("read back certificate of %s: %w", template.Subject.CommonName, err)
	}
	return cert, encodeCertificate(der), nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	keyPEM, err := encodeKey(key)
	return key, keyPEM, err
}

func serialNumber() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}
