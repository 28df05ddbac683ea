// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package localdispatch

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/client-go/util/cert"
)

// Identity is the client certificate of the front proxy, which authenticates the control plane to servers.
type Identity struct {
	certificate func() (cert, key []byte)
	last        atomic.Pointer[verifiedCertificate]
}

// verifiedCertificate is a certificate and the state of a connection after a handshake with it.
type verifiedCertificate struct {
	pem   []byte
	state *tls.ConnectionState
}

// NewIdentity returns an identity. The function returns the current certificate and its key, in PEM.
func NewIdentity(certificate func() (cert, key []byte)) *Identity {
	return &Identity{certificate: certificate}
}

// connection returns the state of a TLS connection that was authenticated with the certificate.
func (i *Identity) connection() (*tls.ConnectionState, error) {
	// A handshake would prove possession of the key, which this process has.
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
	i.last.Store(&verifiedCertificate{pem: pem, state: state})
	return state, nil
}
