// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"fmt"
	"strings"

	basegate "k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/server/featuregating/gates"
)

// NewReporter returns the process's own gates, which report their use to the namespace annex-system. Gates of fields and resources follow
// the Features, and are in use from the start. All others are reported when the process asks for them, with their configured value.
//
// A report says that this process has observed a Feature up to a resourceVersion. Gated fields hold to that even before the gate has
// followed: registry/resource reads the Feature with each write and commits only if the Feature has not changed since. A write that is
// under way while a Feature becomes TurningOff fails this comparison and is decided again. OpenAPI follows a watch and stores nothing.
func NewReporter(own basegate.MutableVersionedFeatureGate, gated gates.Gated, component, instance string) (*featuregate.Gate, error) {
	var follow []featuregate.Option
	known := own.GetAll()
	for _, gate := range gated.Gates() {
		if _, ok := known[basegate.Feature(gate)]; !ok {
			return nil, fmt.Errorf("there is no feature gate %s, which gates a field or resource; add it to server/featuregating/gates", gate)
		}
		follow = append(follow, featuregate.FromAPI(basegate.Feature(gate)))
	}
	reporter, err := featuregate.New(own, featuregate.Options{
		Component: component, Version: gates.Version(), Namespace: gates.Namespace, Instance: instance,
	}, follow...)
	if err != nil {
		return nil, fmt.Errorf("report the process's own feature gates: %w", err)
	}
	for _, gate := range gated.Gates() {
		reporter.Enabled(basegate.Feature(gate))
	}
	return reporter, nil
}

// OwnsLease reports whether a Lease of the name, in the namespace annex-system, is of a replica of the extension apiserver, or of a process
// that reports to it.
func OwnsLease(name string) bool {
	return strings.HasPrefix(name, Component+"-") || strings.HasPrefix(name, ComponentOfOthers+"-") || strings.HasPrefix(name, featuregate.LeasePrefix)
}
