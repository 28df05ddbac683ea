// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package core serves the kinds of the legacy group that a control plane without containers needs: Namespace, ConfigMap
// and Secret.
//
// Namespaces cannot be deleted yet. Emptying a namespace before it goes is the work of a controller that does not exist
// yet, and without it a deleted namespace would stay Terminating for ever, or go and orphan what was in it. So the verbs
// delete and deletecollection are not served, and a client gets the 405 of any verb a resource does not have.
package core
