// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission judges requests to the control plane's native kinds by who asks, and by what an object would bring about.
//
//   - CertificateApproval: conditions of a CertificateSigningRequest are written with the verb approve on its signer.
//   - CertificateSigning: certificates, and conditions through /status, are written with the verb sign on its signer.
//   - CertificateSubjectRestriction: nobody becomes a member of system:masters through the signer for clients.
//   - ResourceQuota: no more objects are created in a namespace than its quotas allow.
//
// The signer stands in for an object of the resource signers in certificates.k8s.io, by its name or as its domain and "/*".
package admission

import (
	"io"

	"k8s.io/apiserver/pkg/admission"

	serveradmission "github.com/kube-annex/annex/server/internal/admission"
)

// Plugins lists the plugins in the order in which they run.
func Plugins() []serveradmission.Plugin {
	return []serveradmission.Plugin{
		plugin(CertificateApprovalName, NewCertificateApproval),
		plugin(CertificateSigningName, NewCertificateSigning),
		plugin(CertificateSubjectRestrictionName, NewCertificateSubjectRestriction),
	}
}

// plugin lists one that takes no configuration. It runs last, since webhooks and policies may still change a request.
func plugin(name string, create func() admission.ValidationInterface) serveradmission.Plugin {
	return serveradmission.Plugin{Name: name, New: func(io.Reader) (admission.Interface, error) { return create(), nil }, Last: true}
}
