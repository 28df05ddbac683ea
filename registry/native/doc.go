// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package native serves the kinds that a control plane has by itself, without CustomResourceDefinitions: a folder a group.
//
// They are the Go types of k8s.io/api, in one version each. The same types are the hub: a second copy and conversions
// would buy nothing as long as there is one version. What upstream does while converting, such as moving a Secret's
// stringData into data, is done by defaulters here. Event is the exception: its two groups share one store, in core's version, which the
// other's is converted to.
//
// Kinds lists them all; a server leaves kinds out with WithoutResources, and adds its own with WithGroups. They are to give the same verdicts as
// kube-apiserver does: test/compatibility/apicompat sends the same objects to both.
package native
