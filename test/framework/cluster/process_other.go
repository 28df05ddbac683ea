// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cluster

import "syscall"

func endWithParent() *syscall.SysProcAttr { return nil }
