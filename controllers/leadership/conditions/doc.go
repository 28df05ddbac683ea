// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conditions has the values of leadership.Group.When that tie a group to the state of the cluster: the group runs while an API is
// served, or while a Feature is on (KEP-5366, story 2). It is for programs that lead groups by the library; the groups of Annex's own
// servers run always. It is a package of its own so that leadership does not need clients of discovery and of Features.
//
// A condition costs a follower one small request every two seconds, or a watch of one object. While the server is away a group keeps its
// state.
package conditions
