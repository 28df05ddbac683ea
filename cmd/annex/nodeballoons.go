// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kube-annex/annex/controllers/nodeballoons"
)

// addNodeBalloons has the process's metrics say how large nodes are. They are registered by what it returns, once it is clear that
// something will run.
func addNodeBalloons(o *nodeballoons.Options) (register func() error) {
	metrics := nodeballoons.NewMetrics()
	o.Metrics = metrics
	return func() error { return metrics.Register(legacyregistry.Register) }
}
