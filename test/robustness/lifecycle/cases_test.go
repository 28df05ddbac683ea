// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/apis/fencing"
	nodev1alpha1 "github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycletest"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/test/framework/poll"
)

// annexCases has a case for each of Annex's gates.
func annexCases() []lifecycletest.Case {
	return []lifecycletest.Case{
		{
			Feature: string(gates.NodeBalloonReclaimPolicy),
			Prepare: prepareBalloons, Use: useReclaimPolicy, CheckOff: checkReclaimPolicyOff,
		},
		{
			Feature: string(gates.FeatureCanary),
			Prepare: prepareFeature, Use: useCanary, StopUsing: stopCanary, CheckOff: checkCanaryOff,
		},
		{
			// It stores nothing.
			Feature: string(gates.GracefulLeaderTransition),
			Use:     useGracefulTransition, CheckOff: func(testing.TB, *rest.Config) {},
		},
	}
}

func annexClient(t testing.TB, config *rest.Config) *versioned.Clientset {
	t.Helper()
	config.WarningHandler = rest.NoWarnings{}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

const balloons = 20

func balloon(i int) *nodev1alpha1.NodeBalloon {
	return &nodev1alpha1.NodeBalloon{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{"kept": "yes"}},
		Spec:       nodev1alpha1.NodeBalloonSpec{BalloonSize: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}
}

func prepareBalloons(t testing.TB, config *rest.Config) {
	client := annexClient(t, config).NodeV1alpha1().NodeBalloons()
	for i := range balloons {
		if _, err := client.Create(t.Context(), balloon(i), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

const reclaimPolicy = `{"spec":{"reclaimPolicy":"Hold"}}`

// useReclaimPolicy sets the field of half of the balloons.
func useReclaimPolicy(t testing.TB, config *rest.Config) {
	client := annexClient(t, config).NodeV1alpha1().NodeBalloons()
	for i := 0; i < balloons; i += 2 {
		out, err := client.Patch(t.Context(), balloon(i).Name, types.MergePatchType, []byte(reclaimPolicy), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if ptr.Deref(out.Spec.ReclaimPolicy, "") != nodev1alpha1.ReclaimHold {
			t.Errorf("%s has no reclaimPolicy although the feature is on: %+v", out.Name, out.Spec)
		}
	}
}

// checkReclaimPolicyOff tries the field on one that has had it, one that has not, and a new one.
func checkReclaimPolicyOff(t testing.TB, config *rest.Config) {
	client := annexClient(t, config).NodeV1alpha1().NodeBalloons()
	for i := range 2 {
		out, err := client.Patch(t.Context(), balloon(i).Name, types.MergePatchType, []byte(reclaimPolicy), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if out.Spec.ReclaimPolicy != nil {
			t.Errorf("%s has a reclaimPolicy although the feature is off", out.Name)
		}
	}
	fresh := balloon(balloons)
	fresh.Spec.ReclaimPolicy = ptr.To(nodev1alpha1.ReclaimHold)
	out, err := client.Create(t.Context(), fresh, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Spec.ReclaimPolicy != nil {
		t.Error("a new balloon has a reclaimPolicy although the feature is off")
	}
	if err := client.Delete(t.Context(), fresh.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The Feature that has a canary is nobody's.
const canaryNamespace, canaryFeature = "default", "Example"

func prepareFeature(t testing.TB, config *rest.Config) {
	feature := &featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: canaryFeature}}
	if _, err := annexClient(t, config).FeaturesV1alpha1().Features(canaryNamespace).Create(t.Context(), feature, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func patchCanary(t testing.TB, config *rest.Config, patch string) error {
	_, err := annexClient(t, config).FeaturesV1alpha1().Features(canaryNamespace).Patch(t.Context(), canaryFeature, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func useCanary(t testing.TB, config *rest.Config) {
	if err := patchCanary(t, config, `{"spec":{"canary":{"percent":10}}}`); err != nil {
		t.Errorf("spec.canary cannot be set although the feature is on: %v", err)
	}
}

func stopCanary(t testing.TB, config *rest.Config) {
	if err := patchCanary(t, config, `{"spec":{"canary":null}}`); err != nil {
		t.Errorf("spec.canary cannot be removed while the feature is TurningOff: %v", err)
	}
}

func checkCanaryOff(t testing.TB, config *rest.Config) {
	if err := patchCanary(t, config, `{"spec":{"canary":{"percent":10}}}`); !apierrors.IsInvalid(err) {
		t.Errorf("setting spec.canary while the feature is off gives %v, want a 422", err)
	}
}

// useGracefulTransition takes a Lease from the process, and waits until it has it back: it must have gone on running.
func useGracefulTransition(t testing.TB, config *rest.Config) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	leases := kube.CoordinationV1().Leases("annex-system")
	const name = "annex-observer"
	var holder string
	poll.Eventually(t, time.Minute, "the Lease was taken from its holder", func(ctx context.Context) error {
		lease, err := leases.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if holder = ptr.Deref(lease.Spec.HolderIdentity, ""); holder == "" {
			return fmt.Errorf("nobody holds the Lease %s", name)
		}
		// As if its holder had released it, so that nobody waits until it has expired.
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, fencing.ReleasedAnnotation, fencing.Current(lease).Value())
		lease.Spec.HolderIdentity = ptr.To("")
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	process := holder[:max(0, strings.LastIndex(holder, "_"))]
	poll.Eventually(t, time.Minute, "the process has the Lease again", func(ctx context.Context) error {
		lease, err := leases.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if after := ptr.Deref(lease.Spec.HolderIdentity, ""); after == holder || !strings.HasPrefix(after, process) {
			return fmt.Errorf("the Lease %s is held by %q, want another term of %s", name, after, process)
		}
		return nil
	})
}
