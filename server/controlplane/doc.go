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
// started has ended. In every replica it runs the controllers of the folder controllers/: system namespaces, the trust that
// extension servers read, APIServices for CustomResourceDefinitions and for what is built in, whether remote servers
// answer, and the objects of priority and fairness.
//
// Callers are authenticated by client certificates, or by a front proxy that has one. What they may do is written in
// policy.go, until role-based access control takes its place. Namespaces cannot be deleted yet; see registry/native/core.
package controlplane
