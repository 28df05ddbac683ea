// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/pflag"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// addMetrics adds what a process says about which of its metrics are shown. They are shared by all that runs in it.
func addMetrics(fs *pflag.FlagSet) *metrics.Options {
	o := metrics.NewOptions()
	o.AddFlags(fs)
	return o
}

// applyMetrics is called before anything registers metrics.
func applyMetrics(o *metrics.Options) error {
	if err := utilerrors.NewAggregate(o.Validate()); err != nil {
		return fmt.Errorf("set up metrics by their flags: %w", err)
	}
	o.Apply()
	return nil
}

// processMetrics registers metrics for the process.
type processMetrics struct{}

// Register registers one metric.
func (processMetrics) Register(m metrics.Registerable) error { return legacyregistry.Register(m) }

// CustomRegister registers a collector.
func (processMetrics) CustomRegister(c metrics.StableCollector) error {
	return legacyregistry.CustomRegister(c)
}
