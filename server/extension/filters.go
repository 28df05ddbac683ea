// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kube-annex/annex/server/featuregating"
	"github.com/kube-annex/annex/server/internal/filters"
	"github.com/kube-annex/annex/server/internal/filters/fencing"
)

// applyFilters sets the handler chain. Late writes of leaders are refused exactly if the Leases are in the server's etcd, else after a read
// of the Lease from the host.
func (o *completedOptions) applyFilters(config *genericapiserver.Config, host kubernetes.Interface, gating *featuregating.Gating) error {
	metrics, err := fencing.NewMetrics(legacyregistry.Register)
	if err != nil {
		return err
	}
	check := fencing.AskHost(host.CoordinationV1(), metrics)
	if o.SharesLeaseStorage {
		check = fencing.InTransaction(metrics)
	}
	filters.Extension{Fence: check, WithGatedResources: gating.WithGatedResources}.ApplyTo(config)
	return nil
}
