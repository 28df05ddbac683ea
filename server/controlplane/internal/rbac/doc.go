// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rbac authorizes by Roles, ClusterRoles and their bindings, as Kubernetes does: it allows or has no opinion, and never
// denies.
//
// Roles and bindings are read from informers. Bindings are indexed by their subjects, so that a question costs as much as the user
// and his groups have bindings, however many others there are.
//
// Questions that come before everything has been read wait for it, as long as their context and patience last: a server that has
// just started refuses nobody for want of roles that it has not seen yet.
package rbac
