// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kube-annex/annex/clusteridentity"
	"github.com/kube-annex/annex/clusteridentity/metrics"
)

// addClusterIdentity has the process's metrics say which cluster it works on. They are registered by what it returns, once it is clear
// that something will run.
func addClusterIdentity(o **clusteridentity.Source) (register func() error) {
	identity := clusteridentity.New()
	*o = identity
	return func() error {
		if err := legacyregistry.Registerer().Register(metrics.NewCollector(identity.Current)); err != nil {
			return fmt.Errorf("register the metric of the cluster's identity: %w", err)
		}
		return nil
	}
}
