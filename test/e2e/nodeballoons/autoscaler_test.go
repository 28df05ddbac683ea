// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

// identity makes a user who may do this and nothing else, and returns the user's kubeconfig.
func identity(t *testing.T, name string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	rbac := host.Kubernetes.RbacV1()
	if _, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		atEnd(t, func(ctx context.Context) error { return rbac.ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{}) })
		atEnd(t, func(ctx context.Context) error {
			return rbac.ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})
		})
	})
	kubeconfig, err := host.Identity(name)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

var resizer = rbacv1.PolicyRule{APIGroups: []string{"node.k8s.io"}, Resources: []string{"nodeballoons/resize"}, Verbs: []string{"get", "update", "patch"}}

// TestResizeIsARightOfItsOwn has an identity with rights on nodeballoons/resize alone do what it may, and try what it may not.
func TestResizeIsARightOfItsOwn(t *testing.T) {
	t.Parallel()
	const name = "n-nobodys"
	setBalloon(t, name, holds("100m"))
	config, err := clientcmd.BuildConfigFromFlags("", identity(t, "resizer", resizer))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	balloons := versioned.NewForConfigOrDie(config).NodeV1alpha1().NodeBalloons()
	ctx := t.Context()
	waitFor(t, name, v1alpha1.ReasonPending, "") // Nobody else writes it from now on.
	var balloon *v1alpha1.NodeBalloon
	poll.Eventually(t, patience, "the right is known", func(ctx context.Context) error {
		balloon, err = balloons.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"balloonSize":{"cpu":"200m"}}}`), metav1.PatchOptions{}, "resize")
		return err
	})
	balloon = waitFor(t, name, v1alpha1.ReasonPending, "")
	if cpu := balloon.Spec.BalloonSize[corev1.ResourceCPU]; cpu.Cmp(resource.MustParse("200m")) != 0 {
		t.Errorf("the balloon shall hold %s, want 200m", cpu.String())
	}

	// Two autoscalers have read the same version. The second one learns that it was too late.
	first, second := balloon.DeepCopy(), balloon.DeepCopy()
	first.Spec, second.Spec = holds("300m"), holds("400m")
	if _, err = balloons.UpdateResize(ctx, name, first, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err = balloons.UpdateResize(ctx, name, second, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("the second of two resizes of one version: %v, want a conflict", err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"balloonSize":{"cpu":"400m"}}}`, balloon.ResourceVersion)
	if _, err = balloons.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "resize"); !apierrors.IsConflict(err) {
		t.Errorf("a patch of an old version: %v, want a conflict", err)
	}

	pods := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(metav1.NamespaceSystem)
	for what, attempt := range map[string]func() error{
		"read":   func() error { _, err := balloons.Get(ctx, name, metav1.GetOptions{}); return err },
		"list":   func() error { _, err := balloons.List(ctx, metav1.ListOptions{}); return err },
		"update": func() error { _, err := balloons.Update(ctx, second, metav1.UpdateOptions{}); return err },
		"status": func() error { _, err := balloons.UpdateStatus(ctx, second, metav1.UpdateOptions{}); return err },
		"create": func() error { _, err := balloons.Create(ctx, second, metav1.CreateOptions{}); return err },
		"delete": func() error { return balloons.Delete(ctx, name, metav1.DeleteOptions{}) },
		"pods/resize": func() error {
			_, err := pods.Patch(ctx, "any", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "resize")
			return err
		},
	} {
		if err := attempt(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it to be forbidden", what, err)
		}
	}
}

// TestAutoscalerExample runs artifacts/examples/balloon-autoscaler with no more rights than it says that it needs.
func TestAutoscalerExample(t *testing.T) {
	t.Parallel()
	const node = "n-auto"
	setBalloon(t, node, v1alpha1.NodeBalloonSpec{NodeSize: list("500m", "1Gi")})
	label := []byte(`{"metadata":{"labels":{"example.com/autoscaled":"true"}}}`)
	if _, err := annex.NodeV1alpha1().NodeBalloons().Patch(t.Context(), node, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, node, v1alpha1.ReasonSettled, "500m")
	read := func(group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"list"}}
	}
	resize := resizer
	resize.Verbs = []string{"update"}
	kubeconfig := identity(t, "autoscaler", read("", "pods"), read("node.k8s.io", "nodeballoons"), resize)
	logFile := filepath.Join(t.TempDir(), "autoscaler.log")
	process, err := cluster.StartProcess("autoscaler", logFile, framework.Example(t, root, "balloon-autoscaler"),
		"-kubeconfig="+kubeconfig, "-interval=500ms", "-selector=example.com/autoscaled=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Kill()
		if t.Failed() {
			t.Logf("the autoscaler says:\n%s", process.Tail(30))
		}
	})
	effective := func(want string) {
		t.Helper()
		poll.Eventually(t, patience, "the node's effective size is "+want, func(ctx context.Context) error {
			balloon, err := annex.NodeV1alpha1().NodeBalloons().Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if cpu := balloon.Status.Effective[corev1.ResourceCPU]; cpu.Cmp(resource.MustParse(want)) != 0 {
				return fmt.Errorf("it is %s: %+v", cpu.String(), balloon.Status.Conditions)
			}
			return nil
		})
	}
	effective("100m")
	workload(t, "scaled-1", node, "50m")
	effective("100m")
	workload(t, "scaled-2", node, "40m")
	effective("108m")
	deleteWorkload(t, metav1.NamespaceDefault, "scaled-1")
	effective("100m")
}
