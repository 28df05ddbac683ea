// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gatedfields_test

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

// TestUpdateKeepsAFieldWhoseRemovalAwaitsConfirmation updates an object that has a gated field while nobody has confirmed that the
// field may be cleared, and after somebody has.
func TestUpdateKeepsAFieldWhoseRemovalAwaitsConfirmation(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Options{})
	setStates(t, s, on)
	c, r := widgetsOf(t, s), rows["spec.color"]
	r.create(t, c, "kept", r.with)
	updateKeeps := func() bool {
		t.Helper()
		current, err := c.Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		current.SetLabels(map[string]string{"updated": current.GetResourceVersion()})
		if _, err = c.Update(t.Context(), current, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		stored, _ := raw(t, s, "kept")
		return bytes.Contains(stored, []byte(r.value))
	}
	setState(t, s, color, turningOff, "WaitForUses", "ClearField AwaitingConfirmation")
	if !updateKeeps() {
		t.Error("an update dropped the field although its removal awaits confirmation")
	}
	c.taken()
	added, err := c.Create(t.Context(), r.body("new", r.with), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if warned := c.taken(); r.has(added) || !strings.Contains(warned, "not confirmed") {
		t.Errorf("a new object has the field: %t, with the warnings %q; want it dropped", r.has(added), warned)
	}
	setState(t, s, color, turningOff, "WaitForUses", "ClearField")
	if updateKeeps() {
		t.Error("an update kept the field after the removal was confirmed")
	}
}
