// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clients has tests with programs of others that many clusters know, run against `annex up`: kubectl (every command that needs no pods),
// Helm, a chart's worth of manifests, and a manager of controller-runtime, whose program is test/modules/manager.
package clients
