// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade tests what featuregate/lifecycle does when replicas change their versions, with the server of package jars.
package upgrade
