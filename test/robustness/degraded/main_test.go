// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package degraded

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// TestMain leaves the log out: what is broken on purpose fills it.
func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
