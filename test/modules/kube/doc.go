// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube pins the Kubernetes components that the end-to-end tests build: its go.mod names them as tools. The folder specs has
// Kubernetes' own end-to-end specs as a binary. It is a module of its own because Annex itself never depends on k8s.io/kubernetes.
package kube
