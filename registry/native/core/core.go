// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served and stored in.
var GroupVersion = corev1.SchemeGroupVersion

// Kinds lists the kinds of the group.
func Kinds() []resource.Served {
	return []resource.Served{servedNamespaces(), configMaps().Served(), secrets().Served()}
}
