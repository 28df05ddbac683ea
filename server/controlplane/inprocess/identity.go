// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/client-go/util/cert"
)

// Identity is what the control plane shows to servers: the certificate of its front proxy.
type Identity struct {
	certificate func() (cert, key []byte)
	last        atomic.Pointer[shown]
}

// shown is a certificate as a server sees it after a handshake.
type shown struct {
	pem   []byte
	state *tls.ConnectionState
}

// NewIdentity returns the identity with the certificate that the function returns each time, in PEM, with its key.
func NewIdentity(certificate func() (cert, key []byte)) *Identity {
	return &Identity{certificate: certificate}
}

// connection returns the state of a TLS connection on which the certificate was shown.
func (i *Identity) connection() (*tls.ConnectionState, error) {
	// Who has both holds the key, which is all that a handshake would prove.
	pem, _ := i.certificate()
	if last := i.last.Load(); last != nil && bytes.Equal(last.pem, pem) {
		return last.state, nil
	}
	certificates, err := cert.ParseCertsPEM(pem)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the front proxy: %w", err)
	}
	if len(certificates) == 0 {
		return nil, errors.New("the front proxy has no certificate")
	}
	state := &tls.ConnectionState{
		Version: tls.VersionTLS13, HandshakeComplete: true, PeerCertificates: certificates, VerifiedChains: [][]*x509.Certificate{},
	}
	i.last.Store(&shown{pem: pem, state: state})
	return state, nil
}
