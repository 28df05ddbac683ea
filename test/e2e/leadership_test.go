// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestLeadersHandOverOnKubernetes has two candidates, whose writes the policy of artifacts/deploy watches, share a Lease.
func TestLeadersHandOverOnKubernetes(t *testing.T) {
	const user = "system:serviceaccount:default:leader-elected-controller"
	lease := types.NamespacedName{Namespace: "default", Name: "leader-elected-controller"}
	framework.NewKubectl(t, root, host.Kubeconfig).Run(t, "apply", "--server-side", "-f", "artifacts/deploy/leader-writes-policy.yaml")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "leader-elected-controller"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := host.Kubernetes.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = host.Kubernetes.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "leader-writes.annex.io", metav1.DeleteOptions{})
		_ = host.Kubernetes.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, "leader-writes.annex.io", metav1.DeleteOptions{})
		_ = host.Kubernetes.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{})
		_ = host.Kubernetes.CoordinationV1().Leases(lease.Namespace).Delete(ctx, lease.Name, metav1.DeleteOptions{})
		_ = host.Kubernetes.CoreV1().ConfigMaps("default").Delete(ctx, "led", metav1.DeleteOptions{})
	})
	kubeconfig, err := host.Identity(user)
	if err != nil {
		t.Fatal(err)
	}

	heard := &warnings{}
	type leader struct {
		term *leadership.Term
		at   time.Time
		// write writes with the client of the term.
		write func(context.Context) error
	}
	leads, over := make(chan leader, 10), make(chan time.Time, 10)
	start := func(who string) (*leadership.Elector, func()) {
		o := leadership.NewOptions()
		o.Host, o.MarkWrites = who, true
		if o.Client, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
			t.Fatal(err)
		}
		o.Client.WarningHandler = heard
		candidate, err := leadership.New(o, leadership.Group{Name: "led", Lease: lease, New: func(term *leadership.Term) ([]leadership.Runnable, error) {
			client, err := kubernetes.NewForConfig(term.Client())
			if err != nil {
				return nil, err
			}
			return []leadership.Runnable{{Name: "writer", Run: func(ctx context.Context) error {
				leads <- leader{term: term, at: time.Now(), write: func(ctx context.Context) error {
					_, err := client.CoreV1().ConfigMaps("default").Patch(ctx, "led", types.MergePatchType, fmt.Appendf(nil, `{"data":{"at":"%d"}}`, time.Now().UnixNano()), metav1.PatchOptions{})
					return err
				}}
				<-ctx.Done()
				over <- time.Now()
				return nil
			}}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- candidate.Run(ctx) }()
		stopped := false
		stop := func() {
			if stopped {
				return
			}
			stopped = true
			cancel()
			if err := <-done; err != nil {
				t.Errorf("%s ended with %v", who, err)
			}
		}
		t.Cleanup(stop)
		return candidate, stop
	}
	next := func(who string) leader {
		t.Helper()
		select {
		case l := <-leads:
			if !strings.HasPrefix(l.term.Fence().Holder, who+"_") {
				t.Fatalf("%s leads, want %s", l.term.Fence(), who)
			}
			return l
		case <-time.After(time.Minute):
			t.Fatalf("%s does not lead", who)
			return leader{}
		}
	}

	_, stopFirst := start("first")
	first := next("first")
	if _, err := host.Kubernetes.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "led"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	second, stopSecond := start("second")
	poll.Eventually(t, patience, "the second follows", func(context.Context) error {
		if status := second.Statuses()[0]; status.Holder != first.term.Fence().Holder {
			return fmt.Errorf("its status is %s", status)
		}
		return nil
	})
	// A write under no term is warned of as soon as the policy is at work.
	plain := clientWith(t, kubeconfig, heard)
	late := func(ctx context.Context, holder string) string {
		heard.take()
		if _, err := plain.CoreV1().ConfigMaps("default").Patch(ctx, "led", types.MergePatchType, fmt.Appendf(nil, `{"data":{"late":"%d"}}`, time.Now().UnixNano()), metav1.PatchOptions{FieldManager: holder}); err != nil {
			t.Fatal(err)
		}
		return heard.take()
	}
	poll.Eventually(t, patience, "the policy is at work", func(ctx context.Context) error {
		if warning := late(ctx, "nobody"); !strings.Contains(warning, "only the process that holds the Lease should write") {
			return fmt.Errorf("the warning is %q", warning)
		}
		return nil
	})
	writes := func(l leader) {
		t.Helper()
		heard.take()
		poll.Eventually(t, patience, "the leader's write is not warned of", func(ctx context.Context) error {
			if err := l.write(ctx); err != nil {
				t.Fatal(err)
			}
			if warning := heard.take(); warning != "" { // admission may see the Lease a moment late
				return fmt.Errorf("the warning is %q", warning)
			}
			return nil
		})
	}
	writes(first)

	stopFirst()
	then := next("second")
	took := then.at.Sub(<-over)
	t.Logf("the hand-over took %s", took.Round(time.Millisecond))
	writes(then)
	if warning := late(t.Context(), first.term.Fence().Holder); !strings.Contains(warning, `held by "second_`) {
		t.Errorf("a late write of the first leader is warned of with %q", warning)
	}
	if err := first.write(t.Context()); err == nil || !strings.Contains(err.Error(), "the term is over") {
		t.Errorf("the client of the first term answers %v", err)
	}
	stopSecond()
}
