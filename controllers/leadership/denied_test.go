// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/controllers/leadership"
)

// TestALeaderThatMayNotReadSaysWhichRightIsMissing has a group whose caches never sync, until the right is granted.
func TestALeaderThatMayNotReadSaysWhichRightIsMissing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limited := rest.CopyConfig(admin)
	limited.Impersonate = rest.ImpersonationConfig{UserName: s.lease.Name, Groups: []string{"system:authenticated"}}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: s.lease.Name},
		Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"*"}, APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}},
			{Verbs: []string{"create"}, APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}},
		},
	}
	role, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.lease.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: s.lease.Name}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a := s.candidate("a", through(limited), working(func(ctx context.Context, term *leadership.Term) error {
		own, err := kubernetes.NewForConfig(term.Client())
		if err != nil {
			return err
		}
		factory := informers.NewSharedInformerFactory(own, 0)
		secrets := factory.Core().V1().Secrets().Informer()
		factory.Start(ctx.Done())
		defer factory.Shutdown()
		cache.WaitForCacheSync(ctx.Done(), secrets.HasSynced)
		<-ctx.Done()
		return nil
	}))
	s.await(soon, "start", "a", 1)
	const want = `resource "secrets" in API group ""`
	patience := quick.LeaseDuration + 4*soon
	eventually(t, patience, "readiness names the group and the right", func() (bool, any) {
		err := a.Check(&http.Request{})
		return err != nil && strings.Contains(err.Error(), s.lease.Name+": ") && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "grant that right"), err
	})
	a.wantPage(http.StatusInternalServerError, s.lease.Name+": leading", want)
	eventually(t, patience, "an Event tells of it", func() (bool, any) {
		list, err := client.EventsV1().Events(s.lease.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, event := range list.Items {
			if event.Regarding.Name == s.lease.Name && event.Reason == "MissingRight" && strings.Contains(event.Note, want) {
				return true, nil
			}
		}
		return false, len(list.Items)
	})
	if n := len(s.all("build", "a")); n != 1 {
		t.Errorf("%d terms were begun, want one that goes on", n)
	}

	role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"secrets"}})
	if _, err = client.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "it is healthy once the right is granted", func() (bool, any) { err := a.Check(&http.Request{}); return err == nil, err })
}
