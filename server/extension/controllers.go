// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"net"

	"k8s.io/client-go/rest"
	basegate "k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/featuregating"
	"github.com/kube-annex/annex/server/internal/genericserver"
)

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

func (o *completedOptions) newReporter(instance string) (*featuregate.Gate, error) {
	if gate, ok := o.Gates.(*featuregate.Gate); ok {
		return gate, nil
	}
	return featuregating.NewReporter(o.Gates, gated(), Name, instance)
}

// newEngines returns the controllers of Features.
func (c *Config) newEngines(served resources, loopback *rest.Config) (*featuregating.Engines, error) {
	return featuregating.NewEngines(c.options.Lifecycle, featuregating.Config{
		Gates: c.reporter, Gated: gated(), Resources: served, Instance: c.instance, Loopback: loopback, Host: c.host,
	})
}
