// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/server/options"
)

// addLeadership has the process's metrics count, and a process that ends at once say why, as every other error is said. The metrics
// are registered by what it returns, once it is clear that something will run.
func addLeadership(o *options.Leadership, stderr io.Writer) (register func() error) {
	metrics := leadership.NewMetrics()
	o.Metrics = metrics
	o.BeforeExit = func(why error) {
		_, _ = fmt.Fprintf(stderr, "annex: %s\n", oneLine(why.Error()))
	}
	return func() error { return metrics.Register(legacyregistry.Register) }
}
