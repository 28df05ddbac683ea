// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	annexfake "github.com/kube-annex/annex/generated/clientset/versioned/fake"
)

// TestWhatAnEngineWaitsFor is said so that an administrator can do something about it.
func TestWhatAnEngineWaitsFor(t *testing.T) {
	t.Parallel()
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for name, tc := range map[string]struct {
		// refused is what lists of Leases end with, and without that there is no namespace.
		refused error
		without bool
		// admission refuses the trial.
		admission error
		want      string
	}{
		"nothing":       {},
		"rights":        {refused: apierrors.NewForbidden(leases, "", errors.New("no")), want: "bind the ClusterRole annex-feature-lifecycle"},
		"Leases":        {refused: apierrors.NewNotFound(leases, ""), want: "the host has no Leases"},
		"the host":      {refused: errors.New("connection refused"), want: "ask the host for Leases: connection refused"},
		"the namespace": {without: true, want: `ask the host for the namespace: namespaces "frob-system" not found`},
		"admission":     {admission: apierrors.NewForbidden(v1alpha1.Resource("features"), "Foo", errors.New("not yet")), want: "try to write a Feature"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := fake.NewClientset()
			if !tc.without {
				host = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "frob-system"}})
			}
			if tc.refused != nil {
				host.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.refused })
			}
			annex := annexfake.NewClientset()
			if tc.admission != nil {
				annex.PrependReactor("create", "features", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.admission })
			}
			e := &Engines{config: Config{Host: host}, client: annex}
			err := e.check(t.Context(), &lifecycle.Options{Namespace: "frob-system", Leases: host.CoordinationV1(), Features: []lifecycle.Feature{{Name: "Foo"}}})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestFeaturesOfOthersKeepWhatIsKnownOfThem and are left alone if they are observed.
func TestFeaturesOfOthersKeepWhatIsKnownOfThem(t *testing.T) {
	t.Parallel()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	there := []v1alpha1.Feature{
		{ObjectMeta: metav1.ObjectMeta{Name: "Reported"}, Status: v1alpha1.FeatureStatus{Default: v1alpha1.ValueEnabled, Stability: v1alpha1.StabilityBeta}},
		{ObjectMeta: metav1.ObjectMeta{Name: "Observed"}, Status: v1alpha1.FeatureStatus{Default: v1alpha1.ValueEnabled, Source: v1alpha1.SourceObserved}},
		{ObjectMeta: metav1.ObjectMeta{Name: "Empty"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "Other"}, Status: v1alpha1.FeatureStatus{Source: v1alpha1.SourceObserved}},
	}
	options := &lifecycle.Options{}
	for _, name := range []string{"Observed", "Empty", "Reported", "New"} {
		options.Features = append(options.Features, lifecycle.Feature{Name: name, Default: v1alpha1.ValueDisabled})
	}
	adopt(klog.NewContext(t.Context(), logger), options, there)
	for _, f := range options.Features {
		want, stage := v1alpha1.ValueDisabled, v1alpha1.Stability("")
		if f.Name == "Reported" {
			want, stage = v1alpha1.ValueEnabled, v1alpha1.StabilityBeta
		}
		if f.Default != want || f.Stability != stage {
			t.Errorf("the default of %s is %s, and its stability %q; want %s and %q", f.Name, f.Default, f.Stability, want, stage)
		}
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if strings.Count(log, "since it is observed") != 1 || !strings.Contains(log, "Observed") {
		t.Errorf("it is to be said once of Observed that the flag does not set it:\n%s", log)
	}
}
