// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package leadership

import "time"

func elapsed() time.Duration { return monotonic() }
