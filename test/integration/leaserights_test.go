// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/install"
	"github.com/kube-annex/annex/test/framework"
)

// mayDoWithLeases tries each verb on a Lease, or on all of a namespace, and wants 403 for all but the allowed ones.
func mayDoWithLeases(t *testing.T, as kubernetes.Interface, namespace string, lease *coordinationv1.Lease, allowed ...string) {
	t.Helper()
	ctx, all, name := t.Context(), []string{metav1.DryRunAll}, lease.Name
	leases := as.CoordinationV1().Leases(namespace)
	changed := lease.DeepCopy()
	changed.Namespace, changed.Labels = namespace, map[string]string{"features.k8s.io/announcer": "annex-apiserver"}
	forged := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "annex-apiserver-forged-lifecycle", Labels: changed.Labels}}
	for verb, try := range map[string]func() error{
		"get":  func() error { _, err := leases.Get(ctx, name, metav1.GetOptions{}); return err },
		"list": func() error { _, err := leases.List(ctx, metav1.ListOptions{}); return err },
		"watch": func() error {
			events, err := leases.Watch(ctx, metav1.ListOptions{})
			if err == nil {
				events.Stop()
			}
			return err
		},
		"create": func() error { _, err := leases.Create(ctx, forged, metav1.CreateOptions{DryRun: all}); return err },
		"update": func() error { _, err := leases.Update(ctx, changed, metav1.UpdateOptions{DryRun: all}); return err },
		"patch": func() error {
			_, err := leases.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"holderIdentity":"eve"}}`), metav1.PatchOptions{DryRun: all})
			return err
		},
		"delete": func() error { return leases.Delete(ctx, name, metav1.DeleteOptions{DryRun: all}) },
		"deletecollection": func() error {
			return leases.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: all}, metav1.ListOptions{})
		},
	} {
		err := try()
		if want := slices.Contains(allowed, verb); apierrors.IsForbidden(err) == want || want && err != nil {
			t.Errorf("%s of Leases in namespace %s: got %v; want it allowed: %t", verb, namespace, err, want)
		}
	}
}

// TestTheServersAccountWritesNoLeasesOfOthers gives the account of annex-apiserver what `annex register` binds to it, and nothing else.
func TestTheServersAccountWritesNoLeasesOfOthers(t *testing.T) {
	t.Parallel()
	server := framework.SharedServer()
	client, ctx := server.Kubernetes.RbacV1(), t.Context()
	for _, object := range install.New().Objects() {
		var err error
		switch object := object.(type) {
		case *rbacv1.ClusterRole:
			_, err = client.ClusterRoles().Create(ctx, object, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			_, err = client.ClusterRoleBindings().Create(ctx, object, metav1.CreateOptions{})
		case *rbacv1.Role:
			_, err = client.Roles(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = client.RoleBindings(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	if _, err := server.Kubernetes.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	leases := map[string]*coordinationv1.Lease{}
	for _, namespace := range []string{"team", metav1.NamespaceSystem, "annex-system"} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "kube-scheduler"}}
		var err error
		if leases[namespace], err = server.Kubernetes.CoordinationV1().Leases(namespace).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:annex-system:annex-apiserver",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:annex-system", "system:authenticated"},
	}
	account, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		_, err := account.CoordinationV1().Leases("annex-system").List(ctx, metav1.ListOptions{})
		return err
	})
	framework.Eventually(t, patience, func() error {
		_, err := account.CoordinationV1().Leases("team").Get(ctx, "kube-scheduler", metav1.GetOptions{})
		return err
	})
	for _, namespace := range []string{metav1.NamespaceSystem, "team"} {
		mayDoWithLeases(t, account, namespace, leases[namespace], "get", "list")
	}
	mayDoWithLeases(t, account, "annex-system", leases["annex-system"], "get", "list", "watch", "create", "update", "patch", "delete")
}
