// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespace empties namespaces that are being deleted, and then lets them go.
//
// A deleted namespace is Terminating, and takes no new objects. The controller deletes what is in it, of native, custom and
// aggregated kinds alike, waits for the finalizers of these objects, and takes the finalizer "kubernetes" off the namespace when
// nothing is left. What keeps it from that is in the conditions of the namespace, under the types and reasons that Kubernetes has.
//
//	controller.go   which namespaces there are to empty, and when to try again
//	attempt.go      one attempt: empty, report, let go
//	content.go      the objects of one kind in one namespace
//	kinds.go        which kinds there may be
//	conditions.go   what an attempt came to, as conditions
//
// A kind whose server does not answer may have objects. The namespace then stays until the server is back, or its APIService is gone.
// The same holds for a definition of which no version is served, until it is gone. Where the objects of a kind are not found, discovery is
// asked again. Any other kind that discovery does not list has none, and neither has one that can be created only after the namespace began
// to terminate. Each server that serves a resource in some version of its group has objects of its own.
// That is why a namespace is let go only when it has been empty of all kinds that discovery lists, asked a while after the deletion:
// by then other replicas have heard of it, and creations that began before it are over.
package namespace
