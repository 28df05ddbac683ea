// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// CertificateSubjectRestrictionName is the plugin's name.
const CertificateSubjectRestrictionName = "CertificateSubjectRestriction"

// NewCertificateSubjectRestriction returns the plugin of the same name.
func NewCertificateSubjectRestriction() admission.ValidationInterface {
	return &subjects{admission.NewHandler(admission.Create)}
}

type subjects struct{ *admission.Handler }

// Validate implements admission.ValidationInterface.
func (s *subjects) Validate(_ context.Context, request admission.Attributes, _ admission.ObjectInterfaces) error {
	if !isSigningRequest(request, "") {
		return nil
	}
	csr, ok := request.GetObject().(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return admission.NewForbidden(request, fmt.Errorf("not a CertificateSigningRequest: %T", request.GetObject()))
	}
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	groups, err := groupsIn(csr.Spec.Request)
	if err != nil {
		return admission.NewForbidden(request, fmt.Errorf("read spec.request: %w", err))
	}
	if slices.Contains(groups, user.SystemPrivilegedGroup) {
		return admission.NewForbidden(request, fmt.Errorf("use of %s signer with %s group is not allowed", csr.Spec.SignerName, user.SystemPrivilegedGroup))
	}
	return nil
}

func groupsIn(content []byte) ([]string, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("it is no PEM")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	return parsed.Subject.Organization, nil
}
