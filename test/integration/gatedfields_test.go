// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	features "github.com/kube-annex/annex/apis/features/v1alpha1"
	node "github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/featuregate/clearfield"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/up"
	"github.com/kube-annex/annex/test/harness"
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
	server := harness.Start(t, func(o *up.Options) {
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
	kubectl := harness.NewKubectl(t, root, server.Kubeconfig)
	setState := func(gate string, state features.State) {
		t.Helper()
		own := client.FeaturesV1alpha1().Features("annex-system")
		feature, err := own.Create(t.Context(), &features.Feature{ObjectMeta: metav1.ObjectMeta{Name: gate}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			feature, err = own.Get(t.Context(), gate, metav1.GetOptions{})
		}
		if err == nil {
			feature.Status.State = state
			_, err = own.UpdateStatus(t.Context(), feature, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	hold := node.ReclaimHold
	balloon := func(name string) *node.NodeBalloon {
		t.Helper()
		out, err := client.NodeV1alpha1().NodeBalloons().Create(t.Context(), &node.NodeBalloon{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       node.NodeBalloonSpec{NodeSize: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1")}, ReclaimPolicy: &hold},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	canary := func(name string) error {
		_, err := client.FeaturesV1alpha1().Features("default").Create(t.Context(), &features.Feature{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: features.FeatureSpec{Canary: &features.Canary{Percent: 5}},
		}, metav1.CreateOptions{})
		return err
	}

	// Nobody has announced anything, so the process's own gates decide.
	if out := balloon("before"); out.Spec.ReclaimPolicy != nil || !strings.Contains(warnings.taken(), "spec.reclaimPolicy was dropped: it is gated by NodeBalloonReclaimPolicy") {
		t.Errorf("the gate is off and the policy is %v, or there was no warning", out.Spec.ReclaimPolicy)
	}
	if err = canary("Before"); err != nil {
		t.Errorf("the gate is on: %v", err)
	}
	// Then the Features do.
	setState("NodeBalloonReclaimPolicy", features.StateOn)
	setState("FeatureCanary", features.StateOff)
	if out := balloon("on"); out.Spec.ReclaimPolicy == nil {
		t.Error("the Feature is On and the policy was dropped")
	}
	if err = canary("Off"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.canary") || !strings.Contains(err.Error(), "annex-system/FeatureCanary") {
		t.Errorf("the Feature is Off: got %v, want 422", err)
	}
	kubectl.WantEventually(t, "reclaimPolicy", "explain", "nodeballoon.spec", "--recursive")

	setState("NodeBalloonReclaimPolicy", features.StateTurningOff)
	config = rest.CopyConfig(server.Config)
	config.WarningHandler = rest.NoWarnings{}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	progress, err := clearfield.Clear(t.Context(), clearfield.Options{
		Client: objects.Resource(node.SchemeGroupVersion.WithResource("nodeballoons")), Field: node.GatedFields()[0],
	}, clearfield.Progress{})
	if err != nil || progress.Seen != 2 || progress.Cleared != 1 {
		t.Errorf("clearing: %+v, %v; want one of two", progress, err)
	}
	if out := kubectl.Run(t, "get", "nodeballoon", "on", "-o", "yaml", "--show-managed-fields"); strings.Contains(out, "reclaimPolicy") {
		t.Errorf("it was cleared and is still there:\n%s", out)
	}
}
