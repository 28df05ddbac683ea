// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane is a Kubernetes-style control plane without nodes, pods and services, built on the published
// libraries only.
//
// A request passes three servers that share one listener and one handler chain: the aggregator, which routes APIServices
// and proxies remote ones; the native kinds of registry/native; and custom resources. What none of them knows is a 404.
//
//	aggregator → native kinds → custom resources → 404
//
// Server.Run builds all three, since the libraries start goroutines in constructors, and returns when everything it
// started has ended.
//
// # Controllers
//
// Those that write and need one writer run in one replica at a time: each of their terms (package controllers/leadership) has
// informers of its own, and a replica that follows has none. They are one group under the Lease kube-system/annex-controlplane;
// /healthz/leadership tells who leads, and a follower is ready.
//
//   - availability: whether remote extension servers answer, into the status of APIServices.
//   - flowcontrol: the FlowSchemas and PriorityLevelConfigurations that every control plane has.
//
// The others run in every replica, and carry no term. They are idempotent, lock optimistically, and are what upstream runs in
// every replica, too:
//
//   - naming, establishing and approval of CustomResourceDefinitions, and the API and OpenAPI of each: a replica has to serve
//     what is defined, and its requests wait for conditions that it sets itself.
//   - discovery and OpenAPI aggregation: they write nothing, and fill this replica's handlers.
//   - local availability: local APIServices are answered by each replica itself.
//   - autoregister: what is built in, and what crdregistration tells it in memory, depends on the replica's version.
//   - crdregistration: it writes nothing by itself.
//   - priority and fairness: each replica queues its own requests, and reports in fields of its own.
//   - systemnamespaces: no Lease can be made before its namespace exists.
//   - authenticationtrust: each replica publishes whom it trusts itself, next to what others have published.
//
// When the server is told to stop, the candidate stops its group and gives the Lease back through the server, which goes on
// serving for as long, and at most Leadership.Timings.StopTimeout. Then the server stops.
//
// Callers are authenticated by client certificates, or by a front proxy that has one. What they may do is written in
// policy.go, until role-based access control takes its place. Namespaces cannot be deleted yet; see registry/native/core.
package controlplane
