// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logs adds the cluster's id and set to log records (KEP-2149, "Diagnostics"): NewHandler for log/slog, and WithIdentity for logr,
// which is what klog and contextual logging take. The values are those of the moment at which a line is logged, and are left out as
// long as there are none.
//
//	cluster := clusteridentity.New()
//	slog.SetDefault(slog.New(logs.NewHandler(slog.NewJSONHandler(os.Stderr, nil), cluster.Current)))
package logs

// Keys of what is added to log records.
const (
	ClusterIDKey  = "clusterID"
	ClusterSetKey = "clusterSet"
)
