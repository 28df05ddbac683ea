// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	nodev1alpha1 "github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// runtimeClassKeepsItsVersion: v1alpha1.node.k8s.io is ours, v1.node.k8s.io the host's own.
func runtimeClassKeepsItsVersion(t *testing.T, _ *annex) {
	groups, err := host.Kubernetes.Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, group := range groups.Groups {
		if group.Name != "node.k8s.io" {
			continue
		}
		got = append(got, "preferred "+group.PreferredVersion.Version)
		for _, version := range group.Versions {
			got = append(got, version.Version)
		}
	}
	if diff := cmp.Diff([]string{"preferred v1", "v1", "v1alpha1"}, got); diff != "" {
		t.Errorf("versions of node.k8s.io (-want,+got):\n%s", diff)
	}

	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "e2e"}, Handler: "e2e"}
	if _, err := host.Kubernetes.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k := framework.NewKubectl(t, root, host.Kubeconfig)
	k.Want(t, `^apiVersion: node\.k8s\.io/v1$`, "get", "runtimeclass", "e2e", "-o", "yaml")
	k.WantEventually(t, `^VERSION:\s+v1$`, "explain", "runtimeclass")
	k.WantEventually(t, `^VERSION:\s+v1alpha1$`, "explain", "nodeballoon")
	k.WantEventually(t, `^nodeballoons\s+nb\s+node\.k8s\.io/v1alpha1\s+false\s+NodeBalloon`, "api-resources", "--api-group=node.k8s.io")
	k.Want(t, `^runtimeclasses\s+node\.k8s\.io/v1\s+false\s+RuntimeClass`, "api-resources", "--api-group=node.k8s.io")
	k.Want(t, `deleted`, "delete", "runtimeclass", "e2e")
}

func namespaceTakesItsFeatures(t *testing.T, a *annex) {
	namespace := makeNamespace(t, "short-lived")
	features := a.client.FeaturesV1alpha1().Features(namespace)
	for i := range 3 {
		feature := &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("Feature%d", i)}}
		if _, err := features.Create(t.Context(), feature, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := host.Kubernetes.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "the namespace is gone", func(ctx context.Context) error {
		found, err := host.Kubernetes.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return wantNotFound(found, err)
	})
	left, err := features.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d Features are left (%v)", len(left.Items), err)
	}
	poll.Eventually(t, patience, "the namespace takes no more Features", func(ctx context.Context) error {
		_, err := features.Create(ctx, &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "Late"}}, metav1.CreateOptions{})
		return wantNotFound(nil, err)
	})
}

func ownedGoesWithItsOwner(t *testing.T, a *annex) {
	balloons, configMaps := a.client.NodeV1alpha1().NodeBalloons(), host.Kubernetes.CoreV1().ConfigMaps("default")
	balloon, err := balloons.Create(t.Context(), &nodev1alpha1.NodeBalloon{
		ObjectMeta: metav1.ObjectMeta{Name: "owner"},
		Spec:       nodev1alpha1.NodeBalloonSpec{NodeSize: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner := metav1.OwnerReference{APIVersion: "node.k8s.io/v1alpha1", Kind: "NodeBalloon", Name: balloon.Name, UID: balloon.UID}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{owner}}}
	if _, err := configMaps.Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := balloons.Delete(t.Context(), balloon.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "the owned ConfigMap is gone", func(ctx context.Context) error {
		found, err := configMaps.Get(ctx, owned.Name, metav1.GetOptions{})
		return wantNotFound(found, err)
	})
}

func podsRun(t *testing.T, a *annex) {
	pods := host.Kubernetes.CoreV1().Pods(makeNamespace(t, "pods"))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "runs"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/main"}}},
	}
	poll.Eventually(t, patience, "the pod is admitted", func(ctx context.Context) error {
		// Its service account comes from a controller.
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	poll.Eventually(t, patience, "the pod runs", func(ctx context.Context) error {
		got, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && (got.Status.Phase != corev1.PodRunning || got.Spec.NodeName != node) {
			err = fmt.Errorf("it is %s on node %q", got.Status.Phase, got.Spec.NodeName)
		}
		return err
	})
}

func makeNamespace(t *testing.T, name string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := host.Kubernetes.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

func wantNotFound(found any, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("it is there: %v", found)
}
