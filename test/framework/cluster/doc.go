// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes cluster on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
// hollow kubelets, built once from the nested module test/modules/kube. It needs no container runtime, no root and no network.
package cluster
