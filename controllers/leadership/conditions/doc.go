// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conditions ties groups of package leadership to the state of the cluster: a group can run while an API is served, or
// while a Feature is on (KEP-5366, story 2).
//
// Each condition costs a follower one small request every two seconds, or one watch of one object. While the server is away a group
// stays as it was.
package conditions
