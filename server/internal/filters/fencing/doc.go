// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fencing refuses late writes of leaders: those of a process that was paused past its lease and does not know yet that
// another one leads.
//
// A leader's client names its term in the header Annex-Term of every write (apis/fencing). WithTerms puts the term into force for
// create, update, patch, delete and deletecollection of resources, subresources included; other requests may carry the header,
// and it is ignored. A write without the header is not fenced: the header only ever takes away what the user may do. A header that
// cannot be read, or that is there twice, is a 400, since the write might be late.
//
// # Where the Leases are in the server's own etcd
//
// InTransaction is exact. The transaction of every write compares the fence key of the Lease, which is written in the transactions
// that change the Lease's holder or transitions (registry/native/coordination). So no write of a term is committed after the
// Lease has passed on, however long it was on its way. It holds for all kinds of the control plane, custom resources and
// APIServices included, and for the extension apiserver of `annex up`, which has the same etcd; the aggregator passes the header
// on as it is.
//
// What writes nothing is not refused: dry runs, and updates after which the object is as before.
//
// # Elsewhere
//
// AskHost is best effort: an extension apiserver with an etcd of its own reads the Lease from its host, with quorum, before the
// write, and the Lease may pass on between the two. Dry runs are asked about like other writes. When the Lease cannot be read,
// the write is refused with 503, because it might be late; so it is when the server has no right to get Leases on the host, which
// `annex register` gives it. It is not a 403, which would tell the client that its term is over.
//
// # What the client gets
//
// A late write is answered with 403 and a cause of type TermOver, which tells it from one for want of rights. The message says
// whose term is over and who holds the Lease now; the latter only if the header has the right uid of the Lease, since the user
// may have no right to read Leases. annex_fencing_late_writes_refused_total counts them.
package fencing
