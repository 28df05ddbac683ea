// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregator is the server in front of a control plane's others. It keeps APIServices, sends requests for a version of a group to
// the server behind its APIService, and puts together discovery and OpenAPI of all.
//
// It replaces k8s.io/kube-aggregator's server and uses that one's storage and controller of local APIServices. Upstream shares the workers
// and locks of discovery and OpenAPI among all servers: one that accepts connections and never answers delays the OpenAPI v3 of all others
// for a minute, and its answers are read without a limit. Here each server has a follower of its own with limits of size and time.
// DEVIATIONS.md lists every difference and its reason:
//
//	APIServices → routes: the mux, by group and version → proxy, or the next server for local ones
//	            → followers, one a server → aggregated discovery
//	                                      → OpenAPI v2, and v3 converted from it
//	            → remoteopenapi: OpenAPI v3 as the servers have it
//
// Requests for discovery and OpenAPI v2 are answered from what is known. A follower asks its server anew when one of its APIServices has
// changed, an annotation included, and every minute. Where a server does not answer, its versions stay in discovery, marked as stale, with
// the resources that they had. What cannot be made part of the merged document, or would make clients refuse all of it, is left out.
package aggregator
