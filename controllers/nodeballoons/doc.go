// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeballoons makes nodes as large as their NodeBalloons say (KEP-5620). On each node a DaemonSet keeps a balloon: a pod that
// claims resources and uses none, so that what it claims does not exist for other pods. The controller resizes it in place, and the
// node's kubelet settles every race: a balloon that finds no room waits, and no pod is evicted for it.
//
// The path of a change, top to bottom:
//
//	what is watched, and what is done about a node     controller.go
//	what there is of a node: node, pod, NodeBalloon    view.go
//	how large the balloon shall be                     size.go
//	what to do next                                    next.go, verdict.go, taint.go: a pure function of the view
//	doing it                                           write.go, events.go, metrics.go
//	the DaemonSet and its PriorityClass                fleet.go, objects.go
//
// # Priority
//
// Balloons have the priority 1000000000, the most that an extension can have, and never preempt. A kubelet kills running pods for the
// growth of one that is critical to the system, so a balloon must not be, and one that somebody has made so is not grown; in return, a
// pod that is may displace a balloon, and the kubelet then fails the balloon's pod. Then the condition Settled is False with the
// reason Displaced, and the balloon takes what still fits until it has regained its size.
//
// # Where the truth is
//
// A balloon's size is what its kubelet says that it has allocated. A request that is not granted yet counts for the scheduler all
// the same, and keeps new pods away: that is what waiting for room is worth, and what ReclaimRevert gives back in the end.
//
// The controller keeps nothing that a restart must not lose: verdicts that last, Reverted among them, are read from status. The time for
// which a balloon has waited for room begins anew, and a size that was refused for good is asked for once more.
//
// This package is not a stable API.
package nodeballoons
