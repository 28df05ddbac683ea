// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package features stores the group features.k8s.io.
//
// Feature is an ordinary kind; that spec.desired may be set only where the server allows it is judged by an admission
// plugin of the server. FeatureReport is created and never stored: featurereport.go merges it into the Features.
package features

import "github.com/kube-annex/annex/registry/resource"

// Install adds the group's kinds.
func Install(group *resource.Group) error {
	store, err := featureKind.InstallStore(group)
	if err != nil {
		return err
	}
	group.Add("featurereports", newReports(store, group.Storage("features/status")))
	return nil
}
