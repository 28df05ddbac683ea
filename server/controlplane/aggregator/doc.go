// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregator is the server in front of a control plane's others. It keeps APIServices, sends requests for a version of a group to
// the server behind its APIService, and puts together discovery and OpenAPI of all.
//
// It does what k8s.io/kube-aggregator's server does, with that one's storage and controller of local APIServices, in another way: there,
// all servers share the workers and locks with which documents are fetched. One that takes connections and never answers keeps
// everybody's OpenAPI v3 waiting for a minute, and routes to new APIServices for as long each time that its own is touched; and what it
// sends is read to its end, which may not come. Here each server has a follower of its own, which asks nobody else to wait, reads no more
// than a limit and gives up in time:
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
