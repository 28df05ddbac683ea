// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
)

// Metrics count what the fences of a process have refused.
type Metrics struct {
	lateWrites *metrics.Counter
}

// NewMetrics returns metrics and registers them; without a function they are dropped. Servers of one process share its metrics, so
// those that are registered already are used again.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	m := &Metrics{lateWrites: metrics.NewCounter(&metrics.CounterOpts{
		Name:           "annex_fencing_late_writes_refused_total",
		Help:           "Writes that were refused because the term of leadership they belong to was over.",
		StabilityLevel: metrics.ALPHA,
	})}
	if register == nil {
		return m, nil
	}
	err := register(m.lateWrites)
	if taken := (prometheus.AlreadyRegisteredError{}); errors.As(err, &taken) {
		if existing, ok := taken.ExistingCollector.(*metrics.Counter); ok {
			return &Metrics{lateWrites: existing}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register the metrics of fencing: %w", err)
	}
	return m, nil
}
