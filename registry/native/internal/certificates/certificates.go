// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificates serves CertificateSigningRequest: who wants a client certificate asks with it, somebody else approves, and a
// signer answers.
//
// Three endpoints share the object. The resource's own sets the spec, once, with the name of who asked; /approval writes the conditions,
// among them Approved and Denied; /status writes the certificate, and conditions other than these two.
package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served and stored in.
var GroupVersion = certificatesv1.SchemeGroupVersion

// Kinds lists the kinds of the group.
func Kinds() []resource.Served { return []resource.Served{requests().Served()} }
