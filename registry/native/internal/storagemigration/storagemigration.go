// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storagemigration serves StorageVersionMigration.
package storagemigration

import (
	storagemigrationv1 "k8s.io/api/storagemigration/v1"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kind is served and stored in.
var GroupVersion = storagemigrationv1.SchemeGroupVersion

// Kinds lists the kinds of the group.
func Kinds() []resource.Served {
	return []resource.Served{storageVersionMigrations().Served()}
}
