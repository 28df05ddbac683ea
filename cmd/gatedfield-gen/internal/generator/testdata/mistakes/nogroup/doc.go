// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 says neither its group nor how its types are called in OpenAPI.
package v1
