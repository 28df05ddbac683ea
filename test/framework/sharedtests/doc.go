// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sharedtests says what holds of Annex behind any host. The tests of test/integration run it behind our own control plane, and
// those of test/e2e behind a real kube-apiserver.
package sharedtests
