// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"net"
	"slices"

	basegate "k8s.io/component-base/featuregate"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	nodev1alpha1 "github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/featuregating"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/internal/genericserver"
)

// gated lists what the server serves only while Features permit it.
func gated() gates.Gated {
	return gates.Gated{Fields: slices.Concat(featuresv1alpha1.GatedFields(), nodev1alpha1.GatedFields())}
}

// configured returns the value of a gate by the flags of the process, without that of the Feature, which the reporter follows.
func configured(reporter *featuregate.Gate) func(gate string) bool {
	known := reporter.GetAll()
	return func(gate string) bool {
		_, ok := known[basegate.Feature(gate)]
		return ok && reporter.MutableVersionedFeatureGate.Enabled(basegate.Feature(gate))
	}
}

// instanceID identifies this replica. An embedded store has one server, wherever that listens.
func instanceID(backend *etcd.Backend, listener net.Listener) (string, error) {
	if backend.StoreID != "" {
		return backend.StoreID, nil
	}
	return genericserver.Instance(listener)
}

// NewReporter returns gates that report their use by the process. A process that has other users of the gates besides this server sets
// Options.Gates to the result; the server creates a reporter of component annex-apiserver otherwise.
func NewReporter(gates basegate.MutableVersionedFeatureGate, component string, backend *etcd.Backend, listener net.Listener) (*featuregate.Gate, error) {
	id, err := instanceID(backend, listener)
	if err != nil {
		return nil, err
	}
	return featuregating.NewReporter(gates, gated(), component, id)
}
