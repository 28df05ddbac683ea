// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kube-annex/annex/clusteridentity"
)

// NewCollector returns the metric annex_cluster_info{id,clusterset} 1. It has no series until the identity is known; an id or a set that
// there is not is an empty label. Registries of k8s.io/component-base take it by Registerer().Register.
func NewCollector(identity func() clusteridentity.Identity) prometheus.Collector {
	return &collector{
		identity: identity,
		info: prometheus.NewDesc("annex_cluster_info", "The id of the cluster and the set that it is a member of; always 1.",
			[]string{"id", "clusterset"}, nil),
	}
}

type collector struct {
	identity func() clusteridentity.Identity
	info     *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.info }

// Collect implements prometheus.Collector.
func (c *collector) Collect(found chan<- prometheus.Metric) {
	identity := c.identity()
	if !identity.Known {
		return
	}
	info, err := prometheus.NewConstMetric(c.info, prometheus.GaugeValue, 1, identity.ID, identity.ClusterSet)
	if err != nil {
		info = prometheus.NewInvalidMetric(c.info, err)
	}
	found <- info
}
