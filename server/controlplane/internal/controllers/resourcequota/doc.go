// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourcequota keeps the status of ResourceQuotas: what of the limits in their specs is used up.
//
// Objects are counted by the names that Kubernetes has for it: count/<resource>.<group> for any namespaced kind, native, custom or
// aggregated, and configmaps, secrets and resourcequotas. What only pods, volumes and services use up is not counted, as there are none.
//
// Admission (package admission of the control plane) writes into the status as well: it charges the quota before an object is stored. The
// controller sets right what that leaves over: objects that were deleted, or charged and then not stored, that came in before the quota
// was known, or that admission does not see. A creation may be on its way for long, as where a conversion webhook or the store is slow. So
// a number goes down when an object is deleted, by one; what was charged and not stored is taken off after a period of minutes. The limit
// is not exceeded on the controller's account.
//
//	controller.go   which quotas there are to look at, and when
//	reconcile.go    the status of one quota
//	names.go        which kind a name in a quota is about
//	kinds.go        whether there is such a kind
//	count.go        how many objects there are
//	following.go    which kinds are watched, so that quotas are looked at again
//	stream.go       one such watch
//	charges.go      recent charges and deletions
//
// Nothing is kept of the objects. They are counted by asking for the first of them, with which the server tells how many others there are. A
// kind is watched as long as a quota counts it; where no quota is, there is no watch.
package resourcequota
