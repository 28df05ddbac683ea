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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	features "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// polling is how long a kube-apiserver may take to notice another list of documents: it asks its extension servers every minute.
const polling = 100 * time.Second

// A gated field is there for kubectl, in the schema and in objects, exactly while its Feature permits it.
func gatedFieldFollowsItsFeature(t *testing.T, a *annex) {
	kubectl := framework.NewKubectl(t, root, host.Kubeconfig)
	gate := gateOf(t, a, "NodeBalloonReclaimPolicy")
	const name = "gated"
	apply := func(policy string) string {
		return kubectlApply(t, kubectl, fmt.Sprintf(`{"apiVersion":"node.k8s.io/v1alpha1","kind":"NodeBalloon","metadata":{"name":%q},`+
			`"spec":{"nodeSize":{"cpu":"1"},"reclaimPolicy":%q}}`, name, policy))
	}
	stored := func() string {
		return kubectl.Run(t, "get", "nodeballoon", name, "-o", "jsonpath={.spec.reclaimPolicy}")
	}

	gate("", features.StateOff)
	// kube-apiserver may need a moment to discover an APIService that has just become available.
	poll.Eventually(t, patience, "kubectl explains node balloons", func(ctx context.Context) error {
		if out, err := kubectl.Command(ctx, "explain", "nodeballoon").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	explains(t, kubectl, false)
	if out := apply("Hold"); !strings.Contains(out, "Warning") || !strings.Contains(out, "NodeBalloonReclaimPolicy") {
		t.Errorf("applying the field while its gate is off does not warn and name the gate:\n%s", out)
	}
	if got := stored(); got != "" {
		t.Errorf("the field was stored while its gate is off: %s", got)
	}

	gate(features.ValueEnabled, features.StateOn)
	if out := apply("Hold"); strings.Contains(out, "Warning") || stored() != "Hold" {
		t.Errorf("the feature is On, apply says %s, and %q is stored", out, stored())
	}
	explains(t, kubectl, true)

	gate(features.ValueDisabled, features.StateTurningOff)
	kubectl.Run(t, "annotate", "nodeballoon", name, "touched=true")
	if got := stored(); got != "" {
		t.Errorf("a plain update while the feature turns off leaves %s", got)
	}
	gate(features.ValueDisabled, features.StateOff)
	explains(t, kubectl, false)
	kubectl.Run(t, "delete", "nodeballoon", name)
}

// gateOf returns a function that asks for a value of Annex's own feature, and waits for the state.
func gateOf(t *testing.T, a *annex, name string) func(features.Value, features.State) {
	t.Helper()
	client := a.client.FeaturesV1alpha1().Features("annex-system")
	return func(desired features.Value, state features.State) {
		t.Helper()
		poll.Eventually(t, patience, fmt.Sprintf("%s is %s", name, state), func(ctx context.Context) error {
			feature, err := client.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"desired":%q}}`, desired), metav1.PatchOptions{})
			if err != nil {
				return err
			}
			if feature.Status.State != state {
				return fmt.Errorf("it is %s, and its tasks are %+v", feature.Status.State, feature.Status.Tasks)
			}
			return nil
		})
	}
}

// explains waits until kubectl shows the field, or not; that it explains the rest has to hold all the time.
func explains(t *testing.T, kubectl *framework.Kubectl, has bool) {
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

func kubectlApply(t *testing.T, kubectl *framework.Kubectl, object string) string {
	t.Helper()
	command := kubectl.Command(t.Context(), "apply", "--server-side", "--field-manager=e2e", "--force-conflicts", "-f", "-")
	command.Stdin = strings.NewReader(object)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	return string(out)
}
