// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package documents tests the documents: README.md and docs/ are run, and the links of all documents are checked.
//
// Each block of commands (sh) is run by bash in a directory that looks like a clone after `make build`: it has artifacts/, bin/ and the data
// directory .annex. A block of text directly after it is the expected output. Comments directly before a block change that:
//
//   - `<!-- not run: reason -->`: the block is not run.
//   - `<!-- repeated: reason -->`: the block is repeated until it prints the expected output.
//
// The rules of the comparison:
//
//   - Ids, ages, times, resource versions, addresses and runs of spaces are not compared. A line of three dots stands for any lines.
//   - A block fails exactly if its expected output has an error of kubectl. A warning that is not expected is a failure.
//
// The rules of rewriting:
//
//   - `make run` and `bin/annex up FLAGS` start a process for the document on a fresh data directory, or restart the process of the
//     document. Ports are free ones. Documents without such a command share a process with default flags.
package documents
