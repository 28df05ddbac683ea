// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clock stands for a controller that reaches the server.
package clock

import _ "example.org/house/featuregate"
