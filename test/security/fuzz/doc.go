// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fuzz feeds what clients send to what reads it, with Go's fuzzing: decoders, validation, server-side apply, the options of lists, and
// the tokens that lists are continued with. Nothing may panic, and what is accepted has to keep its promises. `go test` runs the
// seeds alone; `make fuzz` goes on from there, for ten minutes a target unless FUZZTIME says otherwise.
package fuzz
