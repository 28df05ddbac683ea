// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// warnings are those of the last request.
type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.text, "\n")
	w.text = nil
	return text
}

// TestThePolicyWarnsOfLateWrites applies artifacts/deploy/leader-writes-policy.yaml and writes as the controller it is about.
func TestThePolicyWarnsOfLateWrites(t *testing.T) {
	const user = "system:serviceaccount:default:leader-elected-controller"
	kubectl := framework.NewKubectl(t, root, host.Kubeconfig)
	file := "artifacts/deploy/leader-writes-policy.yaml"
	if output := kubectl.Run(t, "apply", "--server-side", "--validate=strict", "-f", file); strings.Contains(output, "Warning") {
		t.Errorf("the cluster warns:\n%s", output)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "leader-elected-controller"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := host.Kubernetes.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "leader-elected-controller", Namespace: "default"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("host_process_1"), LeaseDurationSeconds: ptr.To[int32](15)},
	}
	lease, err := host.Kubernetes.CoordinationV1().Leases("default").Create(t.Context(), lease, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = host.Kubernetes.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "leader-writes.annex.io", metav1.DeleteOptions{})
		_ = host.Kubernetes.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, "leader-writes.annex.io", metav1.DeleteOptions{})
		_ = host.Kubernetes.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{})
		_ = host.Kubernetes.CoordinationV1().Leases("default").Delete(ctx, lease.Name, metav1.DeleteOptions{})
		_ = host.Kubernetes.CoreV1().ConfigMaps("default").Delete(ctx, "written", metav1.DeleteOptions{})
	})

	kubeconfig, err := host.Identity(user)
	if err != nil {
		t.Fatal(err)
	}
	heard := &warnings{}
	client := clientWith(t, kubeconfig, heard)
	configMaps := client.CoreV1().ConfigMaps("default")
	if _, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written"}}, metav1.CreateOptions{FieldManager: "host_process_1"}); err != nil {
		t.Fatal(err)
	}
	heard.take()
	write := func(ctx context.Context, manager string) (string, error) {
		configMap, err := configMaps.Get(ctx, "written", metav1.GetOptions{})
		if err == nil {
			_, err = configMaps.Update(ctx, configMap, metav1.UpdateOptions{FieldManager: manager})
		}
		return heard.take(), err
	}
	// The policy is at work once the first late write is warned of.
	const late = `this write is from "host_process_0", and the Lease default/leader-elected-controller is held by "host_process_1"`
	poll.Eventually(t, patience, "a late write is warned of", func(ctx context.Context) error {
		warning, err := write(ctx, "host_process_0")
		if err != nil || !strings.Contains(warning, late) {
			return fmt.Errorf("the warning is %q (%v), want %q", warning, err, late) //nolint:errorlint // err may be nil
		}
		return nil
	})
	for manager, want := range map[string]string{
		"host_process_1": "",
		"kubectl":        `from "kubectl"`,
		"":               `from ""`,
	} {
		warning, err := write(t.Context(), manager)
		if err != nil || (warning == "") != (want == "") || !strings.Contains(warning, want) {
			t.Errorf("a write of %q is warned of with %q (%v), want %q", manager, warning, err, want)
		}
	}
	// Leases are written outside of terms, and other users are nobody's leaders.
	if _, err := client.CoordinationV1().Leases("default").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if warning := heard.take(); warning != "" {
		t.Errorf("a write of the Lease is warned of with %q", warning)
	}
	admin := clientWith(t, host.Kubeconfig, heard)
	if _, err := admin.CoreV1().ConfigMaps("default").Patch(t.Context(), "written", "application/merge-patch+json", []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if warning := heard.take(); warning != "" {
		t.Errorf("a write of an administrator is warned of with %q", warning)
	}
}

func clientWith(t *testing.T, kubeconfig string, handler rest.WarningHandler) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.WarningHandler = handler
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
