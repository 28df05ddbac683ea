// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework"
)

// TestRevocationLag takes rights and accounts away, with the settings that `annex up` has, and waits until both doors know: the control plane
// at once, and the extension apiserver when what the host told it holds no longer.
func TestRevocationLag(t *testing.T) {
	t.Parallel()
	const (
		rights, account = 5 * time.Second, 10 * time.Second
		// slack is for a busy machine.
		atOnce, slack = 2 * time.Second, 3 * time.Second
	)
	t.Run("ARoleBinding", func(t *testing.T) {
		t.Parallel()
		allowListOfClaims(t, plain, "dismissed")
		_, kube, _ := plain.admin(t)
		sessions := map[string]*session{}
		for door, address := range plain.doors() {
			sessions[door] = newSession(t, address, plain.tls(t, plain.user(t, "dismissed")))
			if got := sessions[door].get(t, claimsPath, ""); got.code != http.StatusOK {
				t.Fatalf("%s: got %d with rights", door, got.code)
			}
		}
		if err := kube.RbacV1().ClusterRoleBindings().Delete(t.Context(), "dismissed", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, sessions, "", http.StatusForbidden, map[string]time.Duration{plain.host: atOnce, plain.extension: rights + slack})
	})
	t.Run("AServiceAccount", func(t *testing.T) {
		t.Parallel()
		_, kube, _ := plain.admin(t)
		accounts := kube.CoreV1().ServiceAccounts("default")
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "robot"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "robot"}},
		}
		if _, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		answer, err := accounts.CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		header := "Authorization: Bearer " + answer.Status.Token + "\n"
		sessions := map[string]*session{}
		for door, address := range plain.doors() {
			sessions[door] = newSession(t, address, plain.tls(t, pki.Pair{}))
			if got := sessions[door].get(t, claimsPath, header); got.code != http.StatusOK {
				t.Fatalf("%s: got %d with a token", door, got.code)
			}
		}
		if err := accounts.Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, sessions, header, http.StatusUnauthorized, map[string]time.Duration{plain.host: atOnce, plain.extension: account + slack})
	})
}

// wantRefused waits until each door refuses the caller, which has a time for it, and has to be so from then on.
func wantRefused(t *testing.T, sessions map[string]*session, headers string, code int, limits map[string]time.Duration) {
	t.Helper()
	began := time.Now()
	for _, door := range slices.Sorted(maps.Keys(sessions)) { // the control plane comes first
		s := sessions[door]
		framework.Eventually(t, limits[s.address]-time.Since(began), func() error {
			if got := s.get(t, claimsPath, headers); got.code != code {
				return fmt.Errorf("%s: got %d, want %d", door, got.code, code)
			}
			return nil
		})
		t.Logf("%s knew after %s", door, time.Since(began))
		if got := s.get(t, claimsPath, headers); got.code != code {
			t.Errorf("%s: and then got %d", door, got.code)
		}
	}
}
