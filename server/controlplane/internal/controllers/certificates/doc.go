// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificates answers approved CertificateSigningRequests for client certificates of this control plane, and removes requests
// that nobody needs any more.
//
// Who signs is kubernetes.io/kube-apiserver-client: see
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers. It approves nothing by itself.
package certificates
