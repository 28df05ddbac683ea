// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// +featureGates=github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator/testdata/example/gates

package shared
