// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
)

// mayReadClaims lets the accounts of a namespace read ClusterClaims, and returns when the server knows it.
func mayReadClaims(t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
	_, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "claim-reader"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"clusterclaims"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "claim-readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "claim-reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + namespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			Groups:             []string{"system:serviceaccounts:" + namespace},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: v1alpha1.GroupName, Resource: "clusterclaims"},
		}}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("not allowed: %+v", review.Status)
		}
		return err
	})
}

// TestServiceAccountLikeInACluster goes the way of a program in a pod, which is given a token and a ConfigMap.
func TestServiceAccountLikeInACluster(t *testing.T) {
	t.Parallel()
	f := framework.Start(t)
	kubectl := framework.NewKubectl(t, root, f.Kubeconfig)
	kubectl.Run(t, "create", "namespace", "team")
	mayReadClaims(t, f.Kubernetes, "team")

	mounted := t.TempDir()
	var authorities string
	framework.Eventually(t, patience, func() error {
		configMap, err := f.Kubernetes.CoreV1().ConfigMaps("team").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err == nil {
			authorities = configMap.Data["ca.crt"]
			_, err = f.Kubernetes.CoreV1().ServiceAccounts("team").Get(t.Context(), "default", metav1.GetOptions{})
		}
		return err
	})
	token := strings.TrimSpace(kubectl.Run(t, "create", "token", "default", "--namespace=team", "--duration=20m"))
	for name, content := range map[string]string{"ca.crt": authorities, "token": token} {
		if err := os.WriteFile(filepath.Join(mounted, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := &rest.Config{
		Host:            f.Config.Host,
		BearerTokenFile: filepath.Join(mounted, "token"),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(mounted, "ca.crt")},
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.MulticlusterV1alpha1().ClusterClaims().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("reading what the account may read: %v", err)
	}
	if out, err := kubectl.Try(t, "--kubeconfig=/dev/null", "--server="+f.Config.Host, "--certificate-authority="+config.CAFile, "--token="+token, "auth", "whoami"); err != nil || !strings.Contains(out, "system:serviceaccount:team:default") {
		t.Errorf("kubectl with the token: %v: %s", err, out)
	}

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "forever", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	if _, err := f.Kubernetes.CoreV1().Secrets("team").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		filled, err := f.Kubernetes.CoreV1().Secrets("team").Get(t.Context(), "forever", metav1.GetOptions{})
		if err == nil && len(filled.Data) != 3 {
			err = fmt.Errorf("the secret holds %v", filled.Data)
		}
		return err
	})

	// The key is kept, so tokens outlive a restart.
	f.Restart(t)
	config.Host = f.Config.Host
	if client, err = versioned.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if _, err := client.MulticlusterV1alpha1().ClusterClaims().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// TestTokensAtTheExtension has the extension apiserver ask the host whose token it is that a client brings to its own port.
func TestTokensAtTheExtension(t *testing.T) {
	t.Parallel()
	f := startFrontDoor(t, func(o *standalone.Options) { o.Extension.Authentication.TokenTTL = time.Second })
	mayReadClaims(t, f.Kubernetes, "default")
	accounts := f.Kubernetes.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token := func(audiences ...string) string {
		t.Helper()
		answer, err := accounts.CreateToken(t.Context(), "reader", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status.Token
	}
	elsewhere, own := token("vault"), token()
	client := f.client(t, pki.Pair{})
	for name, base := range map[string]string{"aggregator": f.Config.Host, "direct": f.direct} {
		for what, tc := range map[string]struct {
			token, path string
			want        int
		}{
			"its own":         {own, claimsPath, http.StatusOK},
			"without rights":  {own, "/apis/features.k8s.io/v1alpha1/features", http.StatusForbidden},
			"another's":       {elsewhere, claimsPath, http.StatusUnauthorized},
			"one of nobody's": {own + "A", claimsPath, http.StatusUnauthorized},
		} {
			if got := get(t, client, base+tc.path, http.Header{"Authorization": {"Bearer " + tc.token}}); got != tc.want {
				t.Errorf("%s, %s: got %d, want %d", name, what, got, tc.want)
			}
		}
	}

	if err := accounts.Delete(t.Context(), "reader", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Authorization": {"Bearer " + own}}
	if got := get(t, client, f.Config.Host+claimsPath, header); got != http.StatusUnauthorized {
		t.Errorf("aggregator, the account deleted: got %d, want 401", got)
	}
	// The extension believes the host's answer for a second here.
	framework.Eventually(t, patience, func() error {
		if got := get(t, client, f.direct+claimsPath, header); got != http.StatusUnauthorized {
			return fmt.Errorf("direct, the account deleted: got %d, want 401", got)
		}
		return nil
	})
}
