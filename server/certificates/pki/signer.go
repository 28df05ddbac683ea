// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Signer is a certificate authority in memory. Wherever it is kept, it comes and goes as text.
type Signer struct {
	cert    *x509.Certificate
	certPEM []byte
	key     crypto.Signer
	keyPEM  []byte
}

// NewSigner makes an authority that is valid for as long, from now on.
func NewSigner(commonName string, validity time.Duration) (*Signer, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	cert, certPEM, err := selfSign(commonName, key, now, x509.Certificate{
		NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA:     true,
	})
	if err != nil {
		return nil, err
	}
	return &Signer{cert: cert, certPEM: certPEM, key: key, keyPEM: keyPEM}, nil
}

// ReadSigners reads what EncodeSigners has written.
func ReadSigners(certsPEM, keysPEM []byte) ([]*Signer, error) {
	certs, keys := blocks(certsPEM, certificateBlock), blocks(keysPEM, keyBlock)
	if len(certs) != len(keys) {
		return nil, fmt.Errorf("there are %d certificates and %d keys", len(certs), len(keys))
	}
	signers := make([]*Signer, 0, len(certs))
	for i := range certs {
		cert, err := parseCertificate(certs[i])
		if err != nil {
			return nil, err
		}
		key, err := parseKey(keys[i])
		if err != nil {
			return nil, err
		}
		switch {
		case !samePublicKey(cert.PublicKey, key.Public()):
			return nil, fmt.Errorf("key %d does not belong to its certificate", i+1)
		case !cert.IsCA:
			return nil, fmt.Errorf("certificate %d is not a certificate authority", i+1)
		}
		signers = append(signers, &Signer{cert: cert, certPEM: certs[i], key: key, keyPEM: keys[i]})
	}
	return signers, nil
}

// EncodeSigners returns all certificates and all keys in the same order, in PEM. The certificates alone are a CA bundle.
func EncodeSigners(signers []*Signer) (certsPEM, keysPEM []byte) {
	for _, signer := range signers {
		certsPEM = append(certsPEM, signer.certPEM...)
		keysPEM = append(keysPEM, signer.keyPEM...)
	}
	return certsPEM, keysPEM
}

func blocks(content []byte, kind string) [][]byte {
	var found [][]byte
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			return found
		}
		if block.Type == kind {
			found = append(found, pem.EncodeToMemory(block))
		}
	}
}

// Equal tells whether both are the same authority.
func (s *Signer) Equal(other *Signer) bool {
	return s == other || s != nil && other != nil && bytes.Equal(s.certPEM, other.certPEM)
}

// Made is when the authority was made.
func (s *Signer) Made() time.Time { return s.cert.NotBefore.Add(ClockSkew) }

// NotAfter is when the authority expires.
func (s *Signer) NotAfter() time.Time { return s.cert.NotAfter }

// Serving issues a certificate for a server that is reached under the given DNS names and IP addresses. It expires after
// the validity, and not after its authority.
func (s *Signer) Serving(commonName string, validity time.Duration, hosts ...string) (certPEM, keyPEM []byte, notAfter time.Time, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	now := time.Now()
	template := x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-ClockSkew),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if template.NotAfter.After(s.cert.NotAfter) {
		template.NotAfter = s.cert.NotAfter
	}
	setHosts(&template, hosts)
	cert, certPEM, err := sign(&template, s.cert, key.Public(), s.key)
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	return certPEM, keyPEM, cert.NotAfter, nil
}

// SaveSigners writes the authorities into one file of the directory, so that certificates and keys never disagree.
func (d *Directory) SaveSigners(name string, signers []*Signer) error {
	certsPEM, keysPEM := EncodeSigners(signers)
	if err := WriteFile(d.SignersFile(name), append(certsPEM, keysPEM...), 0o600); err != nil {
		return fmt.Errorf("write certificate authorities: %w", err)
	}
	return nil
}

// LoadSigners reads what SaveSigners has written; there are none where there is no file.
func (d *Directory) LoadSigners(name string) ([]*Signer, error) {
	content, err := os.ReadFile(d.SignersFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read certificate authorities: %w", err)
	}
	signers, err := ReadSigners(content, content)
	if err == nil && len(signers) == 0 {
		err = errors.New("it holds none")
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority file %s cannot be used: %w; restore it from a backup, or delete it to make a new authority",
			d.SignersFile(name), err)
	}
	return signers, nil
}

// SignersFile is where SaveSigners writes.
func (d *Directory) SignersFile(name string) string { return filepath.Join(d.path, name+".pem") }
