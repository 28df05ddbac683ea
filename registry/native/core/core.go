// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served and stored in.
var GroupVersion = corev1.SchemeGroupVersion

// Kinds lists the kinds of the group. Tokens of service accounts are issued and judged by what is given.
func Kinds(tokens Tokens) []resource.Served {
	return []resource.Served{servedNamespaces(), configMaps().Served(), secrets().Served(), resourceQuotas().Served(), servedServiceAccounts(tokens)}
}
