// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package features stores the group features.k8s.io.
//
// Feature is an ordinary kind; that spec.desired may be set only where the server allows it is judged by an admission
// plugin of the server. FeatureReport is created and never stored: featurereport.go merges it into the Features, each of which is
// admitted as if the reporter had written it, and passes it to the Reporters as a sign of life.
//
// Permits answers from the stored Features what they permit, for the writes of gated fields and kinds (registry/resource), its own
// among them. A Follower knows the same from a watch, for what is published.
//
// This package is not a stable API.
package features

import (
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/kube-annex/annex/registry/resource"
)

// Install adds the group's kinds.
func Install(group *resource.Group) error {
	_, err := install(group, nil)
	return err
}

func install(group *resource.Group, reporters Reporters) (*genericregistry.Store, error) {
	store, err := featureKind.InstallStore(group)
	if err != nil {
		return nil, err
	}
	group.Add("featurereports", newReports(store, group, reporters))
	return store, nil
}
