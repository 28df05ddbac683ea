// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics has the cluster's id and set as a metric of their own, and adds them to all series of a program (KEP-2149,
// "Diagnostics"). Labels that are set at registration would keep what was true then; here they are read whenever metrics are gathered.
//
//	cluster := clusteridentity.New()
//	registry.MustRegister(metrics.NewCollector(cluster.Current))
//	http.Handle("/metrics", promhttp.HandlerFor(metrics.NewGatherer(registry, cluster.Current), promhttp.HandlerOpts{}))
package metrics
