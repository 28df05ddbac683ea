// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"
)

const leafValidity = 2 * 365 * 24 * time.Hour

// Pair names the files of a certificate and its key.
type Pair struct {
	CertFile, KeyFile string
}

// Serving returns a certificate for a server that is reached under the given DNS names and IP addresses.
func (a *Authority) Serving(name string, hosts ...string) (Pair, error) {
	template := x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	setHosts(&template, hosts)
	return a.leaf(name, template)
}

// Client returns a certificate that authenticates its holder as the user commonName in the given groups.
func (a *Authority) Client(name, commonName string, groups ...string) (Pair, error) {
	return a.leaf(name, x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// leaf returns the stored certificate if it is what the template asks for, and makes it anew otherwise.
func (a *Authority) leaf(name string, template x509.Certificate) (Pair, error) {
	pair := Pair{CertFile: a.directory.certFile(name), KeyFile: a.directory.keyFile(name)}
	usable, err := a.usable(pair, &template)
	if err != nil || usable {
		return pair, err
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return pair, err
	}
	serial, err := serialNumber()
	if err != nil {
		return pair, err
	}
	template.SerialNumber = serial
	now, issuer := a.directory.lifetimes.Clock.Now(), a.issuer()
	template.NotBefore = now.Add(-ClockSkew)
	template.NotAfter = now.Add(a.directory.lifetimes.Leaf)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	_, certPEM, err := sign(&template, issuer, key.Public(), a.key)
	if err != nil {
		return pair, err
	}
	if err := WriteFile(pair.KeyFile, keyPEM, 0o600); err != nil {
		return pair, fmt.Errorf("write key of %s: %w", name, err)
	}
	if err := WriteFile(pair.CertFile, certPEM, 0o644); err != nil {
		return pair, fmt.Errorf("write certificate of %s: %w", name, err)
	}
	return pair, nil
}

func (a *Authority) usable(pair Pair, want *x509.Certificate) (bool, error) {
	certPEM, certErr := os.ReadFile(pair.CertFile)
	keyPEM, keyErr := os.ReadFile(pair.KeyFile)
	for _, err := range []error{certErr, keyErr} {
		// A file that is there and may not be read is not ours to replace.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("read certificate: %w", err)
		}
	}
	if certErr != nil || keyErr != nil {
		return false, nil
	}
	cert, err := parseCertificate(certPEM)
	if err != nil {
		return false, nil //nolint:nilerr // a garbled leaf is made anew
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return false, nil //nolint:nilerr // a garbled leaf is made anew
	}
	if err := os.Chmod(pair.KeyFile, 0o600); err != nil {
		return false, fmt.Errorf("close key to other users: %w", err)
	}
	return samePublicKey(cert.PublicKey, key.Public()) &&
		cert.CheckSignatureFrom(a.issuer()) == nil &&
		!a.directory.lifetimes.due(cert) &&
		cert.Subject.CommonName == want.Subject.CommonName &&
		sameSet(cert.Subject.Organization, want.Subject.Organization) &&
		sameSet(cert.DNSNames, want.DNSNames) &&
		sameSet(addresses(cert.IPAddresses), addresses(want.IPAddresses)) &&
		slices.Equal(cert.ExtKeyUsage, want.ExtKeyUsage), nil
}

func (a *Authority) issuer() *x509.Certificate {
	cert, _ := a.current()
	return cert
}

func setHosts(template *x509.Certificate, hosts []string) {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
}

func addresses(ips []net.IP) []string {
	texts := make([]string, 0, len(ips))
	for _, ip := range ips {
		texts = append(texts, ip.String())
	}
	return texts
}

func sameSet(one, other []string) bool {
	one, other = slices.Clone(one), slices.Clone(other)
	slices.Sort(one)
	slices.Sort(other)
	return slices.Equal(slices.Compact(one), slices.Compact(other))
}
