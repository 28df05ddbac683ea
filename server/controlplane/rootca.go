// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// rootCA returns a function that reads the certificate authorities of the serving certificate, or nil if they are unknown.
func (o *completedOptions) rootCA(serving dynamiccertificates.CertKeyContentProvider) func() ([]byte, error) {
	if file := o.ServiceAccounts.RootCAFile; file != "" {
		return func() ([]byte, error) {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read --root-ca-file: %w", err)
			}
			return content, nil
		}
	}
	if serving == nil {
		return nil
	}
	certificate, _ := serving.CurrentCertKeyContent()
	block, _ := pem.Decode(certificate)
	if block == nil {
		return nil
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !bytes.Equal(parsed.RawIssuer, parsed.RawSubject) {
		return nil
	}
	own := pem.EncodeToMemory(block)
	return func() ([]byte, error) { return own, nil }
}
