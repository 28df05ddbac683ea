// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package features tests what becomes of gated fields when several replicas of a server are stopped, cut off or started with other
// flags while a Feature changes. Replicas are processes of their own on one etcd, whose history has the last word.
package features
