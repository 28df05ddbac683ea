// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregation tests what a control plane does with servers behind its APIServices: that it finds out whether they answer, that
// what they have is in its discovery and OpenAPI, and that one that is slow or broken is nobody's trouble but its own.
//
// What is tested of servers that work is tested with real ones: another control plane, whose custom resources the first one serves as
// well. Only what is tested of servers that misbehave is tested with servers that do so on purpose.
package aggregation
