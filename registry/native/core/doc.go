// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package core serves the kinds of the legacy group that a control plane without containers needs.
//
// A namespace is deleted in two steps, as in kube-apiserver. The first DELETE marks it as Terminating. It is removed when neither its
// spec, which /finalize writes, nor its metadata has finalizers: with the write that takes off the last of them. Emptying it before
// that is the work of a controller. This package is not a stable API.
package core
