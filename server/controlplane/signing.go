// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/server/controlplane/controllers/certificates"
	"github.com/kube-annex/annex/server/pki"
)

const (
	defaultSigningDuration = 365 * 24 * time.Hour
	minSigningDuration     = 10 * time.Minute
)

// Signing configures who issues client certificates for approved CertificateSigningRequests.
type Signing struct {
	// CertFile and KeyFile are the authority, one of those in Options.ClientCAFile. Without them nobody signs.
	CertFile, KeyFile string
	// Duration is how long certificates are valid at most, and where a request says nothing.
	Duration time.Duration
}

// NewSigning returns that nobody signs, and a year for certificates once somebody does.
func NewSigning() Signing { return Signing{Duration: defaultSigningDuration} }

// AddFlags adds flags under the names that a kube-controller-manager has for them.
func (s *Signing) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.CertFile, "cluster-signing-cert-file", s.CertFile,
		"File with the authority that issues client certificates for approved CertificateSigningRequests of the signer kubernetes.io/kube-apiserver-client, in PEM. Without it they stay unsigned.")
	fs.StringVar(&s.KeyFile, "cluster-signing-key-file", s.KeyFile, "File with the key of --cluster-signing-cert-file, in PEM.")
	fs.DurationVar(&s.Duration, "cluster-signing-duration", s.Duration, "How long such certificates are valid. Requests may ask for less.")
}

// Validate reports every mistake, files that cannot be read included.
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

// signs tells whether there is a signer.
func (s *Signing) signs() bool { return s.CertFile != "" }

// issue reads the authority anew each time: it may have been renewed.
func (s *Signing) issue(request *x509.CertificateRequest, usage x509.KeyUsage, uses []x509.ExtKeyUsage, validity time.Duration) ([]byte, error) {
	authority, err := pki.ReadSigner(s.CertFile, s.KeyFile)
	if err != nil {
		return nil, err
	}
	return authority.Answer(request, usage, uses, validity)
}

func (s *Server) certificateSigner(t *term) (func(context.Context) error, error) {
	signing := s.options.Signing
	authority := certificates.Authority{Issue: signing.issue, Validity: signing.Duration}
	return certificates.NewSigner(authority, t.informers.Certificates().V1().CertificateSigningRequests(), t.client.CertificatesV1()).Run, nil
}

func (s *Server) certificateCleaner(t *term) (func(context.Context) error, error) {
	return certificates.NewCleaner(t.informers.Certificates().V1().CertificateSigningRequests(), t.client.CertificatesV1(), clock.RealClock{}).Run, nil
}
