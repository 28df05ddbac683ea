// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// credential is a certificate with its key, for a server or a client of this process. It is replaced while it is in use.
type credential struct {
	name string
	// issue returns the files of a certificate that is good for a while, made anew where that is due.
	issue func() (pki.Pair, error)

	mu              sync.Mutex
	pair            pki.Pair
	certPEM, keyPEM []byte
	shown           *tls.Certificate
	listeners       []dynamiccertificates.Listener
}

var _ dynamiccertificates.CertKeyContentProvider = &credential{}

// renew has the certificate made anew where that is due, and tells whether it was.
func (c *credential) renew() (bool, error) {
	pair, err := c.issue()
	if err != nil {
		return false, fmt.Errorf("make certificate: %w", err)
	}
	certPEM, err := os.ReadFile(pair.CertFile)
	if err != nil {
		return false, fmt.Errorf("read back certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(pair.KeyFile)
	if err != nil {
		return false, fmt.Errorf("read back key: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes.Equal(certPEM, c.certPEM) && bytes.Equal(keyPEM, c.keyPEM) {
		return false, nil
	}
	shown, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return false, fmt.Errorf("read back certificate %s: %w", pair.CertFile, err)
	}
	c.pair, c.certPEM, c.keyPEM, c.shown = pair, certPEM, keyPEM, &shown
	for _, listener := range c.listeners {
		listener.Enqueue()
	}
	return true, nil
}

// files are where the certificate and its key are.
func (c *credential) files() pki.Pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair
}

// certificate is what a client shows in a handshake.
func (c *credential) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown, nil
}

// Name is for the log.
func (c *credential) Name() string { return c.name }

// CurrentCertKeyContent returns the certificate and its key in PEM.
func (c *credential) CurrentCertKeyContent() (certPEM, keyPEM []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.certPEM, c.keyPEM
}

// AddListener tells the listener about each new certificate.
func (c *credential) AddListener(listener dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, listener)
}
