// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clock is a controller that reaches the server.
package clock

import _ "example.org/module/featuregate"
