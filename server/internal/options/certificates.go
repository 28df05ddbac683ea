// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"

	certutil "k8s.io/client-go/util/cert"
)

// ValidateKeyPair checks that both files are given, can be read and belong together. The flags are named without dashes.
func ValidateKeyPair(certFlag, certFile, keyFlag, keyFile string) []error {
	switch {
	case certFile == "":
		return []error{fmt.Errorf("--%s is set but --%s is not; set both or neither", keyFlag, certFlag)}
	case keyFile == "":
		return []error{fmt.Errorf("--%s is set but --%s is not; set both or neither", certFlag, keyFlag)}
	}
	certPEM, certErr := os.ReadFile(certFile)
	keyPEM, keyErr := os.ReadFile(keyFile)
	var errs []error
	if certErr != nil {
		errs = append(errs, fmt.Errorf("--%s cannot be read: %w", certFlag, certErr))
	}
	if keyErr != nil {
		errs = append(errs, fmt.Errorf("--%s cannot be read: %w", keyFlag, keyErr))
	}
	if errs != nil {
		return errs
	}
	if _, err := tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return []error{fmt.Errorf("--%s %s and --%s %s cannot be used: %w; give a certificate and its key in PEM", certFlag, certFile, keyFlag, keyFile, err)}
	}
	return nil
}

// ValidateCAFile checks that the file, where one is given, holds at least one certificate. The flag is named without dashes.
func ValidateCAFile(flag, file string) error {
	if file == "" {
		return nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--%s cannot be read: %w", flag, err)
	}
	certificates, err := certutil.ParseCertsPEM(content)
	if err == nil && len(certificates) == 0 {
		err = errors.New("it holds no certificate")
	}
	if err != nil {
		return fmt.Errorf("--%s %s cannot be used: %w; give certificates in PEM", flag, file, err)
	}
	return nil
}
