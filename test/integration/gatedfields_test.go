// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	features "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
)

type heardWarnings struct {
	mu  sync.Mutex
	all strings.Builder
}

func (w *heardWarnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.WriteString(text + "\n")
}

func (w *heardWarnings) taken() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.all.Reset()
	return w.all.String()
}

// TestGatedFieldsOfAnnex takes Annex's own gated fields through their features, as an administrator sees it.
func TestGatedFieldsOfAnnex(t *testing.T) {
	t.Parallel()
	server := framework.Start(t, quickly, func(o *standalone.Options) {
		o.Extension.Lifecycle.Dynamic = []string{"annex-system/*"}
		if err := o.Gates.Set("FeatureCanary=true"); err != nil {
			t.Fatal(err)
		}
	})
	warnings := &heardWarnings{}
	config := rest.CopyConfig(server.Config)
	config.WarningHandler = warnings
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kubectl := framework.NewKubectl(t, root, server.Kubeconfig)
	canary := func(name string) error {
		_, err := client.FeaturesV1alpha1().Features("default").Create(t.Context(), &features.Feature{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: features.FeatureSpec{Canary: &features.Canary{Percent: 5}},
		}, metav1.CreateOptions{})
		return err
	}
	set := func(gate string, value features.Value) {
		t.Helper()
		if err := desire(t, server, "annex-system", gate, value); err != nil {
			t.Fatal(err)
		}
	}

	// The process's own gates decide, and the Features that it announces say the same.
	if out := createBalloon(t, client, "before"); out.Spec.ReclaimPolicy != nil || !strings.Contains(warnings.taken(), "spec.reclaimPolicy was dropped: it is gated by NodeBalloonReclaimPolicy") {
		t.Errorf("the gate is off and the policy is %v, or there was no warning", out.Spec.ReclaimPolicy)
	}
	if err = canary("Before"); err != nil {
		t.Errorf("the gate is on: %v", err)
	}
	eventually(t, server, "annex-system", reclaimPolicy, is(features.StateOff, features.SourceDefault))
	eventually(t, server, "annex-system", canaryGate, is(features.StateOn, features.SourceCommandLine))

	// Then whoever may write Features does.
	set(reclaimPolicy, features.ValueEnabled)
	eventually(t, server, "annex-system", reclaimPolicy, is(features.StateOn, features.SourceDynamic))
	if out := createBalloon(t, client, "on"); out.Spec.ReclaimPolicy == nil {
		t.Error("the Feature is On and the policy was dropped")
	}
	set(canaryGate, features.ValueDisabled)
	eventually(t, server, "annex-system", canaryGate, func(f *features.Feature) string {
		if f.Status.State != features.StateTurningOff {
			return fmt.Sprintf("it is %s, want TurningOff", f.Status.State)
		}
		return ""
	})
	if err = canary("Off"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.canary") || !strings.Contains(err.Error(), "annex-system/FeatureCanary") {
		t.Errorf("the Feature is turning off: got %v, want 422", err)
	}
	kubectl.WantEventually(t, "reclaimPolicy", "explain", "nodeballoon.spec", "--recursive")

	set(reclaimPolicy, features.ValueDisabled)
	off := eventually(t, server, "annex-system", reclaimPolicy, is(features.StateOff, features.SourceDynamic))
	if left := off.Status.DanglingReferences; left == nil || left.Count != 0 {
		t.Errorf("dangling references are %+v, want a count of 0", left)
	}
	if out := kubectl.Run(t, "get", "nodeballoon", "on", "-o", "yaml", "--show-managed-fields"); strings.Contains(out, "reclaimPolicy") {
		t.Errorf("it was cleared and is still there:\n%s", out)
	}
}
