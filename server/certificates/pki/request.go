// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"fmt"
	"os"
	"time"
)

// answerSkew is how much earlier than now certificates begin that were asked for. As with Kubernetes' own signer it is little, since
// whoever asks for an hour does not expect two.
const answerSkew = 5 * time.Minute

// ReadSigner reads an authority from a file with its certificate and one with its key, the first of each, in PEM.
func ReadSigner(certFile, keyFile string) (*Signer, error) {
	s := &Signer{}
	for _, part := range []struct {
		file string
		read func([]byte) error
	}{
		{certFile, func(content []byte) (err error) {
			s.cert, err = parseCertificate(content)
			return err
		}},
		{keyFile, func(content []byte) (err error) {
			s.key, err = parseKey(content)
			return err
		}},
	} {
		content, err := os.ReadFile(part.file)
		if err == nil {
			err = part.read(content)
		}
		if err != nil {
			return nil, fmt.Errorf("read the authority in %s: %w", part.file, err)
		}
	}
	switch {
	case !samePublicKey(s.cert.PublicKey, s.key.Public()):
		return nil, fmt.Errorf("the key in %s does not belong to the certificate in %s", keyFile, certFile)
	case !s.cert.IsCA:
		return nil, fmt.Errorf("the certificate in %s is not a certificate authority", certFile)
	}
	return s, nil
}

// Answer issues the certificate that is asked for, with the subject and the names of the request, and none of its extensions. It
// expires after the validity, and not after its authority, which must not have expired.
func (s *Signer) Answer(request *x509.CertificateRequest, usage x509.KeyUsage, uses []x509.ExtKeyUsage, validity time.Duration) (certPEM []byte, err error) {
	now := time.Now()
	if !now.Before(s.cert.NotAfter) {
		return nil, fmt.Errorf("the authority %s has expired on %s; renew it", s.cert.Subject.CommonName, s.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{
		SerialNumber: serial,
		Subject:      request.Subject,
		DNSNames:     request.DNSNames, IPAddresses: request.IPAddresses, EmailAddresses: request.EmailAddresses, URIs: request.URIs,
		NotBefore: now.Add(-answerSkew), NotAfter: now.Add(validity),
		KeyUsage: usage, ExtKeyUsage: uses,
		BasicConstraintsValid: true,
	}
	if template.NotAfter.After(s.cert.NotAfter) {
		template.NotAfter = s.cert.NotAfter
	}
	_, certPEM, err = sign(&template, s.cert, request.PublicKey, s.key)
	return certPEM, err
}
