// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "EC PRIVATE KEY"
)

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// parseCertificate reads the first certificate of a PEM file.
func parseCertificate(content []byte) (*x509.Certificate, error) {
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			return nil, errors.New("it holds no certificate in PEM")
		}
		if block.Type != certificateBlock {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("it holds no certificate: %w", err)
		}
		return cert, nil
	}
}

// parseKey reads the first private key of a PEM file, in any of the usual encodings.
func parseKey(content []byte) (crypto.Signer, error) {
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			return nil, errors.New("it holds no private key in PEM")
		}
		var key any
		var err error
		switch block.Type {
		case keyBlock:
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("it holds no private key: %w", err)
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("its key, a %T, cannot sign", key)
		}
		return signer, nil
	}
}

func samePublicKey(one, other crypto.PublicKey) bool {
	key, ok := one.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(other)
}
