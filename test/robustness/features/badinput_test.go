// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestBadInput asks a whole Annex for what cannot be.
func TestBadInput(t *testing.T) {
	t.Parallel()
	annex := framework.Start(t, func(o *standalone.Options) {
		if err := o.Gates.Set("FeatureCanary=true"); err != nil {
			t.Fatal(err)
		}
	})
	const namespace = "bad-input"
	if _, err := annex.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := annex.Annex.FeaturesV1alpha1().Features(namespace)
	announced := map[string]v1alpha1.FeatureStatus{
		"Dynamic": {State: v1alpha1.StateOff, Dynamic: true, Stability: v1alpha1.StabilityBeta},
		"Static":  {State: v1alpha1.StateOff, Stability: v1alpha1.StabilityBeta},
		"Locked":  {State: v1alpha1.StateOn, Stability: v1alpha1.StabilityGA, Locked: true, Default: enabled},
		"GA":      {State: v1alpha1.StateOn, Stability: v1alpha1.StabilityGA, Dynamic: true, Default: enabled},
	}
	for name, status := range announced {
		feature, err := client.Create(t.Context(), &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		feature.Status = status
		if _, err := client.UpdateStatus(t.Context(), feature, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	sendReport(t, annex, namespace, "Unheard")
	patch := func(ctx context.Context, name, body string) error {
		_, err := client.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	poll.Eventually(t, patience, "canaries are permitted", func(ctx context.Context) error {
		return patch(ctx, "Dynamic", `{"spec":{"canary":{"percent":1}}}`)
	})
	for name, tc := range map[string]struct {
		feature, body string
		code          func(error) bool
		want          string
	}{
		"a canary of less than nobody":  {"Dynamic", `{"spec":{"canary":{"percent":-1}}}`, apierrors.IsInvalid, "spec.canary.percent: Invalid value: -1: must be from 0 (nobody) to 100 (everyone)"},
		"a canary of more than all":     {"Dynamic", `{"spec":{"canary":{"percent":101}}}`, apierrors.IsInvalid, "spec.canary.percent: Invalid value: 101"},
		"a canary in words":             {"Dynamic", `{"spec":{"canary":{"percent":"ten"}}}`, isRefused, "percent"},
		"a canary that is a fraction":   {"Dynamic", `{"spec":{"canary":{"percent":0.5}}}`, isRefused, "percent"},
		"a canary that is no object":    {"Dynamic", `{"spec":{"canary":50}}`, isRefused, "canary"},
		"a field that canaries lack":    {"Dynamic", `{"spec":{"canary":{"percent":5,"of":"nodes"}}}`, isRefused, `unknown field "spec.canary.of"`},
		"a state for a wish":            {"Dynamic", `{"spec":{"desired":"On"}}`, apierrors.IsInvalid, `spec.desired: Unsupported value: "On"`},
		"a number for a wish":           {"Dynamic", `{"spec":{"desired":1}}`, isRefused, "desired"},
		"a wish for what is not there":  {"Nowhere", `{"spec":{"desired":"Enabled"}}`, apierrors.IsNotFound, "Nowhere"},
		"a wish nobody would hear":      {"Unheard", `{"spec":{"desired":"Enabled"}}`, apierrors.IsForbidden, "--dynamic-features=bad-input/Unheard"},
		"a wish that needs a flag":      {"Static", `{"spec":{"desired":"Enabled"}}`, apierrors.IsForbidden, "--dynamic-features=bad-input/Static"},
		"a wish about a locked feature": {"Locked", `{"spec":{"desired":"Disabled"}}`, apierrors.IsForbidden, "locked to its default, which is Enabled"},
		"a wish about a GA feature":     {"GA", `{"spec":{"desired":"Disabled"}}`, apierrors.IsForbidden, "is GA"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := patch(t.Context(), tc.feature, tc.body)
			if !tc.code(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it refused with %q", err, tc.want)
			}
		})
	}
}

// isRefused tells whether an error is about what cannot be read.
func isRefused(err error) bool { return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) }

// sendReport creates a FeatureReport for a feature that is not announced, which creates the Feature.
func sendReport(t *testing.T, annex *framework.Server, namespace, name string) {
	t.Helper()
	sent := &v1alpha1.FeatureReport{Spec: v1alpha1.FeatureReportSpec{
		Component: "program", Version: "v1", Instance: "program-0", Features: []v1alpha1.ReportedFeature{{Name: name, Value: enabled, Default: disabled, Stability: v1alpha1.StabilityAlpha}},
	}}
	if _, err := annex.Annex.FeaturesV1alpha1().FeatureReports(namespace).Create(t.Context(), sent, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	feature, err := annex.Annex.FeaturesV1alpha1().Features(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || feature.Status.State != "" || len(feature.Status.Uses) != 1 || feature.Status.Stability != v1alpha1.StabilityAlpha {
		t.Errorf("after the report of a feature that nobody knows: %+v, %v", feature, err)
	}
}
