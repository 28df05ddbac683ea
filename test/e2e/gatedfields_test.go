// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	features "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/test/harness"
)

// polling is how long a kube-apiserver may take to notice another list of documents: it asks its extension servers every minute.
const polling = 100 * time.Second

// A gated field is there for kubectl, in the schema and in objects, exactly while its Feature permits it.
func gatedFieldFollowsItsFeature(t *testing.T, a *annex) {
	kubectl := harness.NewKubectl(t, root, host.Kubeconfig)
	gate := gateOf(t, a, "NodeBalloonReclaimPolicy")
	const name = "gated"
	apply := func(policy string) string {
		return kubectlApply(t, kubectl, fmt.Sprintf(`{"apiVersion":"node.k8s.io/v1alpha1","kind":"NodeBalloon","metadata":{"name":%q},`+
			`"spec":{"nodeSize":{"cpu":"1"},"reclaimPolicy":%q}}`, name, policy))
	}
	stored := func() string {
		return kubectl.Run(t, "get", "nodeballoon", name, "-o", "jsonpath={.spec.reclaimPolicy}")
	}

	explains(t, kubectl, false)
	if out := apply("Hold"); !strings.Contains(out, "Warning") || !strings.Contains(out, "NodeBalloonReclaimPolicy") {
		t.Errorf("applying the field while its gate is off does not warn and name the gate:\n%s", out)
	}
	if got := stored(); got != "" {
		t.Errorf("the field was stored while its gate is off: %s", got)
	}

	gate(features.StateOn)
	a.eventually(t, "the field is accepted", func(context.Context) error {
		if out := apply("Hold"); strings.Contains(out, "Warning") || stored() != "Hold" {
			return fmt.Errorf("apply says %s, and %q is stored", out, stored())
		}
		return nil
	})
	explains(t, kubectl, true)

	gate(features.StateTurningOff)
	kubectl.Run(t, "annotate", "nodeballoon", name, "touched=true")
	if got := stored(); got != "" {
		t.Errorf("a plain update while the feature turns off leaves %s", got)
	}
	gate(features.StateOff)
	explains(t, kubectl, false)
	kubectl.Run(t, "delete", "nodeballoon", name)
}

// gateOf returns a function that puts Annex's own feature into a state.
func gateOf(t *testing.T, a *annex, name string) func(features.State) {
	t.Helper()
	client := a.client.FeaturesV1alpha1().Features("annex-system")
	feature, err := client.Create(t.Context(), &features.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return func(state features.State) {
		t.Helper()
		feature.Status.State = state
		if feature, err = client.UpdateStatus(t.Context(), feature, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("make %s %s: %v", name, state, err)
		}
	}
}

// explains waits until kubectl shows the field, or not; that it explains the rest has to hold all the time.
func explains(t *testing.T, kubectl *harness.Kubectl, has bool) {
	t.Helper()
	began := time.Now()
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, polling, true, func(context.Context) (bool, error) {
		out := kubectl.Run(t, "explain", "nodeballoon.spec", "--recursive")
		if !strings.Contains(out, "balloonSize") {
			t.Errorf("kubectl explain does not show the other fields:\n%s", out)
		}
		return strings.Contains(out, "reclaimPolicy") == has, nil
	})
	if err != nil {
		t.Errorf("kubectl explain shows the field: %t, for %s", !has, polling)
	}
	t.Logf("kubectl explain shows the field: %t, after %s", has, time.Since(began).Round(time.Second))
}

func kubectlApply(t *testing.T, kubectl *harness.Kubectl, object string) string {
	t.Helper()
	command := kubectl.Command(t.Context(), "apply", "--server-side", "--field-manager=e2e", "--force-conflicts", "-f", "-")
	command.Stdin = strings.NewReader(object)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	return string(out)
}
