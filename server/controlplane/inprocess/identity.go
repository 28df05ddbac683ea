// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
)

// Identity is what the control plane shows to servers: the certificate of its front proxy.
type Identity struct {
	content *dynamiccertificates.DynamicCertKeyPairContent
	last    atomic.Pointer[shown]
}

// shown is a certificate as a server sees it after a handshake.
type shown struct {
	pem   []byte
	state *tls.ConnectionState
}

// NewIdentity reads the certificate and its key from files, which are read again when they change while Run runs.
func NewIdentity(certFile, keyFile string) (*Identity, error) {
	content, err := dynamiccertificates.NewDynamicServingContentFromFiles("front-proxy", certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read --proxy-client-cert-file and --proxy-client-key-file: %w", err)
	}
	return &Identity{content: content}, nil
}

// Run follows the files until the context ends.
func (i *Identity) Run(ctx context.Context) { i.content.Run(ctx, 1) }

// connection returns the state of a TLS connection on which the certificate was shown.
func (i *Identity) connection() (*tls.ConnectionState, error) {
	// Who has the pair of files holds the key, which is all that a handshake would prove.
	pem, _ := i.content.CurrentCertKeyContent()
	if last := i.last.Load(); last != nil && bytes.Equal(last.pem, pem) {
		return last.state, nil
	}
	certificates, err := cert.ParseCertsPEM(pem)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the front proxy: %w", err)
	}
	if len(certificates) == 0 {
		return nil, errors.New("the file with the certificate of the front proxy has none")
	}
	state := &tls.ConnectionState{
		Version: tls.VersionTLS13, HandshakeComplete: true, PeerCertificates: certificates, VerifiedChains: [][]*x509.Certificate{},
	}
	i.last.Store(&shown{pem: pem, state: state})
	return state, nil
}
