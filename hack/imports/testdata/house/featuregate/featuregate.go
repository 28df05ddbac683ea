// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package featuregate stands for a library that imports the server.
package featuregate

import _ "example.org/house/server/clock"
