// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "syscall"

// endWithParent lets no process outlive a test that was killed.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
