// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kube-annex/annex/controllers/leadership"
)

// newLeadershipMetrics returns metrics of leader election, and the function that registers them once all options are valid.
func newLeadershipMetrics() (metrics *leadership.Metrics, register func() error) {
	metrics = leadership.NewMetrics()
	return metrics, func() error { return metrics.Register(legacyregistry.Register) }
}

// printTo returns a function that prints the error with which leader election ends the process, in the form of all other errors.
func printTo(stderr io.Writer) func(why error) {
	return func(why error) { _, _ = fmt.Fprintf(stderr, "annex: %s\n", oneLine(why.Error())) }
}
