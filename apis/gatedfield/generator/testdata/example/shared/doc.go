// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// +featureGates=github.com/kube-annex/annex/apis/gatedfield/generator/testdata/example/gates

package shared
