// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resource turns a declaration of a kind into its REST storage.
//
// A Kind names what is special about an API kind: its validation, its columns, its selectable fields, the rules that
// tie it to other objects. The package supplies what every kind shares:
//
//   - the strategy: status is cleared on create and kept on update, generation counts changes of anything but metadata
//     and status (strategy.go);
//   - one endpoint a subresource that takes only the fields it is about (subresource.go);
//   - reset fields for server-side apply, tables for kubectl, field selectors (resetfields.go, table.go, selectors.go);
//   - the guard: "commit only if these other keys are unchanged" (guard.go, guardedclient.go, guardedstore.go);
//   - how a server lists a kind whose types are their own hub, and how two groups share a store (served.go, sharing.go);
//   - companions, keys that are written in the same transaction as their object, and fences, which make all writes of a
//     request depend on such a key (kind.go, fence.go).
//
// # The guard
//
// A rule that looks at another object before it lets a write pass would be a check followed by a write: between the two
// the other object can change. Annex closes that window in etcd. Rules read other objects through Peers, which reads with
// quorum and pins the key and revision it saw, absent counting as revision 0. The pins travel in the request's context
// to the etcd client, which adds one comparison a pin to the transaction that writes the object. When a pin no longer
// holds, nothing is written, and the request is run again from the start with fresh reads, at most five times; after that
// the client gets a 409.
//
// Rules run inside every attempt of create, update, patch, apply, delete and delete-collection, and on dry runs, which
// compare nothing since they write nothing. Writes to subresources are exempt from rules, and the unsafe deletion of an undecodable
// object (DeleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential) bypasses the rules, since they need the object.
//
// # Gated fields and kinds
//
// A kind's GatedFields may be used while a feature permits it, and its Gate says the same of the kind. Who knows what features
// permit is given to the group (Group.Gate). A write that sets a gated field, or creates an object of a gated kind, is pinned to
// the feature that permitted it: once the feature has changed in the store, in whichever replica, no such write gets through.
// What is not permitted is dropped with a warning, and nobody comes to own it, or is rejected, as the field's table says. An
// object that already has the field keeps it while the feature is Off, or TurningOff without confirmation, and loses what can be
// dropped with the next write while it is TurningOff with it. Each endpoint judges the fields that it writes. Writes that have no gated field ask nothing. (permits.go,
// gating.go, ownership.go)
//
// # Companions and fences
//
// A kind's Companion is a second key that tells one fact of an object in plain text. Each transaction that writes the object
// leaves the key at the fact's value, and the one that finally removes the object removes the key: create, update, patch,
// apply, delete, delete-collection, the removal of the last finalizer and the unsafe deletion alike. A write that does not
// change the fact does not touch the key, so the key's own revisions are the history of the fact.
//
// A Fence in a request's context makes every write of the request, of whatever kind, compare such a key in its transaction. It
// holds for all stores on a client made by GuardClient, custom resources included, and for subresources. When it does not hold
// nothing is written and the client gets the fence's error, at once: unlike a broken pin it is never tried again. Requests that
// write nothing compare nothing: reads, dry runs, updates that change nothing, and requests that are refused for another reason.
//
// Leadership is fenced with both: a Lease's companion names its holder (registry/native/coordination), and a leader's writes
// carry the fence that they name (server/internal/filters/fencing). The server has to be of this version in all replicas: one that knows no
// companions changes a Lease without its key, until the next write of the Lease by one that does.
package resource
