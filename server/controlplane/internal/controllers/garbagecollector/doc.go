// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package garbagecollector deletes objects whose owners are gone, and carries out deletions in the foreground and those that orphan:
// https://kubernetes.io/docs/concepts/architecture/garbage-collection/. It works on native and custom kinds and on those of extension
// servers, and takes up kinds that come and go.
//
// Each kind that can be listed, watched and deleted has a monitor: an informer of what matters of the objects' metadata, with an index
// of owners (monitor.go, kinds.go). What a monitor knows of a kind that is served no more is kept until the kind is served again, and is compared
// then, or until the definition of the kind is gone, and its objects with it. There is no other graph. What is in the way of a deletion, or waits for one, is looked up in the
// indexes; an owner that no monitor has is asked for (owners.go). Events put objects into a queue (events.go), and workers decide
// about one at a time:
//
//   - an object with owners is deleted when all are gone or wait for it, and else loses the references that hold nothing (collect.go);
//   - an object that is deleted in the foreground goes when nothing that blocks it is left, and one that orphans when no object names
//     it as an owner any more (finalizers.go). Both wait for dependents of kinds that are not served at the moment, and for kinds that are
//     not known yet or cannot be watched, for 30 s at most: a dependent that orphaning overlooks would be taken for garbage later.
//     Blocked owners are checked again every minute.
//
// Writes name the uid and the resource version that was decided upon, so that what has changed since is decided upon again.
package garbagecollector
