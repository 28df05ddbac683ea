// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestReadyAfterFlowSchemas covers readiness; server/internal/filters covers which requests are limited before.
func TestReadyAfterFlowSchemas(t *testing.T) {
	t.Parallel()
	control := newFlowControl(kubernetes.NewForConfigOrDie(&rest.Config{}), 400, 200)
	if control.check(nil) == nil {
		t.Error("the server is ready before it knows whether requests are queued")
	}
	control.decided.Store(true)
	if err := control.check(nil); err != nil {
		t.Error(err)
	}
	late := newFlowControl(kubernetes.NewForConfigOrDie(&rest.Config{}), 400, 200)
	late.waitUntil = late.waitUntil.Add(-2 * flowControlPatience)
	if err := late.check(nil); err != nil {
		t.Errorf("the server waits for a host that does not answer: %v", err)
	}
}
