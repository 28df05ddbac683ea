// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"errors"
	"time"
)

// SelfSigned returns a serving certificate and key in PEM that live in memory only, for the given DNS names and
// IP addresses; the first of them is also its common name.
func SelfSigned(hosts ...string) (certPEM, keyPEM []byte, err error) {
	if len(hosts) == 0 {
		return nil, nil, errors.New("a self-signed certificate needs at least one host")
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := x509.Certificate{
		// Nobody can renew it, and it ends with the process.
		NotAfter:    now.Add(authorityValidity),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		// Clients trust the certificate itself, so it is its own root.
		IsCA: true,
	}
	setHosts(&template, hosts)
	_, certPEM, err = selfSign(hosts[0], key, now, template)
	return certPEM, keyPEM, err
}
