// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package authorization has what the servers share about authorization.
package authorization

import "slices"

var healthPaths = []string{"/healthz", "/livez", "/readyz"}

// HealthPaths returns the paths that all users may read without a review: probes have no credentials, and must work while the host is away.
func HealthPaths() []string { return slices.Clone(healthPaths) }

// IsHealthPath reports whether the path is the path of a health check.
func IsHealthPath(path string) bool { return slices.Contains(healthPaths, path) }
