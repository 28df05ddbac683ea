// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requestbody guards servers against three kinds of bodies that requests may have.
//
// Patches that cost far more to apply than to send: the library that applies JSON patches and JSON merge patches copies all that is within
// an object once for each object that it is within, and keeps the copies until the patch is applied. Ten thousand levels are a patch of
// 60 KB, half a gigabyte and several seconds, and the same levels around a text of 2 MiB are more memory than there is. So there is a limit to
// the levels, and to what has to be copied. Both are far from what objects are: a CustomResourceDefinition has some 40 levels. Server-side
// apply and strategic merge patches have other ways.
//
// Bodies that come byte by byte: a request holds one of the places that its priority level has, for a minute, while it is being read, and a few
// dozen of a user who may write anything are all places of those who have no level of their own. So a client has to send a body at a certain
// speed. Pauses of the reader do not count, such as those of a proxy whose backend does not read.
//
// Quantities with exponents that take seconds or more to compute with; see registry/quantities.
package requestbody
