// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestReportersMayReportAndNothingElse has a component with the role that `annex register` makes for those who report.
func TestReportersMayReportAndNothingElse(t *testing.T) {
	unregisterAtEnd(t)
	a := startAnnex(t)
	const namespace, name = "feature-rights", "reporter"
	if _, err := host.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = host.Kubernetes.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{})
	})
	if _, err := host.Kubernetes.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "annex-feature-reporter"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := host.Identity(name)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	features, reports := client.FeaturesV1alpha1().Features(namespace), client.FeaturesV1alpha1().FeatureReports(namespace)
	report := &v1alpha1.FeatureReport{Spec: v1alpha1.FeatureReportSpec{
		Component: "program", Version: "v1", Instance: "program-0", Features: []v1alpha1.ReportedFeature{{Name: "Foo", Value: v1alpha1.ValueEnabled, Default: v1alpha1.ValueDisabled}},
	}}
	poll.Eventually(t, patience, "the reporter may report", func(ctx context.Context) error {
		_, err := reports.Create(ctx, report, metav1.CreateOptions{})
		return err
	})
	stored, err := features.Get(t.Context(), "Foo", metav1.GetOptions{})
	if err != nil || len(stored.Status.Uses) != 1 {
		t.Fatalf("after the report: %+v, %v", stored, err)
	}

	claimed := stored.DeepCopy()
	claimed.Status.State, claimed.Status.Dynamic = v1alpha1.StateOn, true
	patch := func(body string, subresources ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := features.Patch(ctx, "Foo", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
			return err
		}
	}
	for what, attempt := range map[string]func(context.Context) error{
		"update the status": func(ctx context.Context) error {
			_, err := features.UpdateStatus(ctx, claimed, metav1.UpdateOptions{})
			return err
		},
		"patch the status": patch(`{"status":{"state":"On"}}`, "status"),
		"patch the uses":   patch(`{"status":{"uses":null}}`, "status"),
		"patch the tasks":  patch(`{"status":{"tasks":[]}}`, "status"),
		"update the feature": func(ctx context.Context) error {
			_, err := features.Update(ctx, claimed, metav1.UpdateOptions{})
			return err
		},
		"wish":  patch(`{"spec":{"desired":"Enabled"}}`),
		"label": patch(`{"metadata":{"labels":{"a":"b"}}}`),
		"create a feature": func(ctx context.Context) error {
			_, err := features.Create(ctx, &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "Bar"}}, metav1.CreateOptions{})
			return err
		},
		"delete the feature": func(ctx context.Context) error { return features.Delete(ctx, "Foo", metav1.DeleteOptions{}) },
		"delete all features": func(ctx context.Context) error {
			return features.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
		"report in another place": func(ctx context.Context) error {
			_, err := client.FeaturesV1alpha1().FeatureReports("default").Create(ctx, report, metav1.CreateOptions{})
			return err
		},
	} {
		if err := attempt(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "reporter" cannot`) {
			t.Errorf("%s: got %v, want 403", what, err)
		}
	}
	left, err := a.client.FeaturesV1alpha1().Features(namespace).Get(t.Context(), "Foo", metav1.GetOptions{})
	if err != nil || left.ResourceVersion != stored.ResourceVersion {
		t.Errorf("after all attempts: %+v, %v", left, err)
	}

	// Those who may write a Feature, but not its status, have what they say of that ignored.
	admin := a.client.FeaturesV1alpha1().Features(namespace)
	claimed.Labels = map[string]string{"a": "b"}
	if left, err = admin.Update(t.Context(), claimed, metav1.UpdateOptions{}); err != nil || left.Status.State != "" || left.Status.Dynamic {
		t.Errorf("status through the main endpoint: %+v, %v", left, err)
	}
}
