// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

const (
	// CertificateApprovalName is the name of the plugin that guards /approval.
	CertificateApprovalName = "CertificateApproval"
	// CertificateSigningName is the name of the plugin that guards /status.
	CertificateSigningName = "CertificateSigning"
)

// NewCertificateApproval returns the plugin of the same name.
func NewCertificateApproval() admission.ValidationInterface {
	return &signers{
		Handler: admission.NewHandler(admission.Update), subresource: "approval", verb: "approve",
		concerns: func(_, _ *certificatesv1.CertificateSigningRequest) bool { return true },
	}
}

// NewCertificateSigning returns the plugin of the same name.
func NewCertificateSigning() admission.ValidationInterface {
	return &signers{
		Handler: admission.NewHandler(admission.Update), subresource: "status", verb: "sign",
		concerns: func(csr, old *certificatesv1.CertificateSigningRequest) bool {
			return !bytes.Equal(csr.Status.Certificate, old.Status.Certificate) ||
				!equality.Semantic.DeepEqual(csr.Status.Conditions, old.Status.Conditions)
		},
	}
}

// signers lets a subresource be written only with a verb on the signer of the request.
type signers struct {
	*admission.Handler
	subresource, verb string
	// concerns tells whether an update is of what the verb is about.
	concerns   func(csr, old *certificatesv1.CertificateSigningRequest) bool
	authorizer authorizer.Authorizer
}

// SetAuthorizer implements initializer.WantsAuthorizer.
func (s *signers) SetAuthorizer(authorizer authorizer.Authorizer) { s.authorizer = authorizer }

// ValidateInitialization implements admission.InitializationValidator.
func (s *signers) ValidateInitialization() error {
	if s.authorizer == nil {
		return fmt.Errorf("an admission plugin that asks for the verb %s got no authorizer", s.verb)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (s *signers) Validate(ctx context.Context, request admission.Attributes, _ admission.ObjectInterfaces) error {
	if !isSigningRequest(request, s.subresource) {
		return nil
	}
	csr, isRequest := request.GetObject().(*certificatesv1.CertificateSigningRequest)
	old, wasRequest := request.GetOldObject().(*certificatesv1.CertificateSigningRequest)
	if !isRequest || !wasRequest {
		return admission.NewForbidden(request, fmt.Errorf("not CertificateSigningRequests: %T, %T", request.GetObject(), request.GetOldObject()))
	}
	if !s.concerns(csr, old) {
		return nil
	}
	// The signer is the stored one, whatever the request says.
	allowed, err := s.may(ctx, request, old.Spec.SignerName)
	if err != nil {
		return admission.NewForbidden(request, err)
	}
	if !allowed {
		return admission.NewForbidden(request, fmt.Errorf("user not permitted to %s requests with signerName %q; it takes the verb %s on it in the resource signers",
			s.verb, old.Spec.SignerName, s.verb))
	}
	return nil
}

// may asks for the signer, and then for all signers of its domain.
func (s *signers) may(ctx context.Context, request admission.Attributes, signer string) (bool, error) {
	domain, _, _ := strings.Cut(signer, "/")
	var failed error
	for _, name := range []string{signer, domain + "/*"} {
		decision, _, err := s.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: request.GetUserInfo(), Verb: s.verb, Name: name,
			APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", ResourceRequest: true,
		})
		if decision == authorizer.DecisionAllow {
			return true, nil
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return false, fmt.Errorf("asking whether the user may %s for %s: %w", s.verb, signer, failed)
	}
	return false, nil
}

// isSigningRequest tells whether a request is about an endpoint of CertificateSigningRequests.
func isSigningRequest(request admission.Attributes, subresource string) bool {
	resource := request.GetResource()
	return resource.Group == certificatesv1.GroupName && resource.Resource == "certificatesigningrequests" && request.GetSubresource() == subresource
}
