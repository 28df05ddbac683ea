// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/kube-annex/annex/server/certificates/pki"
)

const (
	defaultSigningDuration = 365 * 24 * time.Hour
	minSigningDuration     = 10 * time.Minute
)

// Signing configures the signer of client certificates for approved CertificateSigningRequests.
type Signing struct {
	// CertFile and KeyFile hold a certificate authority of Options.ClientCAFile. Without them nothing is signed.
	CertFile, KeyFile string
	// Duration is the maximum and default validity of certificates.
	Duration time.Duration
}

// NewSigning returns options without a signer, and a validity of one year.
func NewSigning() Signing { return Signing{Duration: defaultSigningDuration} }

// AddFlags adds flags with the names in kube-controller-manager.
func (s *Signing) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.CertFile, "cluster-signing-cert-file", s.CertFile,
		"File with the authority that issues client certificates for approved CertificateSigningRequests of the signer kubernetes.io/kube-apiserver-client, in PEM. Without it they stay unsigned.")
	fs.StringVar(&s.KeyFile, "cluster-signing-key-file", s.KeyFile, "File with the key of --cluster-signing-cert-file, in PEM.")
	fs.DurationVar(&s.Duration, "cluster-signing-duration", s.Duration, "How long such certificates are valid. Requests may ask for less.")
}

// Validate returns all errors, including those of files.
func (s *Signing) Validate() []error {
	var errs []error
	switch {
	case (s.CertFile == "") != (s.KeyFile == ""):
		errs = append(errs, errors.New("--cluster-signing-cert-file and --cluster-signing-key-file go together; set both or none"))
	case s.CertFile != "":
		if _, err := pki.ReadSigner(s.CertFile, s.KeyFile); err != nil {
			errs = append(errs, fmt.Errorf("--cluster-signing-cert-file and --cluster-signing-key-file cannot be used: %w", err))
		}
	}
	if s.Duration < minSigningDuration {
		errs = append(errs, fmt.Errorf("--cluster-signing-duration is %s; set at least %s", s.Duration, minSigningDuration))
	}
	return errs
}

// signs reports whether there is a signer.
func (s *Signing) signs() bool { return s.CertFile != "" }

// issue signs a request. It reads the authority each time, since the files may have been replaced.
func (s *Signing) issue(request *x509.CertificateRequest, usage x509.KeyUsage, uses []x509.ExtKeyUsage, validity time.Duration) ([]byte, error) {
	authority, err := pki.ReadSigner(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, err
	}
	return authority.Answer(request, usage, uses, validity)
}
