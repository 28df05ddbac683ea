// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filters holds the request filters of our servers, and chain.go their order. A filter is a function With… that wraps a handler; larger
// ones are packages below this one.
package filters
