// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// strictKubelet plays the port of a kubelet: it has the host say who asks, and whether they may get nodes/metrics. A hollow kubelet's
// port is plain HTTP, open to everyone, and does not tell its gates; a real kubelet needs a container runtime.
type strictKubelet struct {
	*httptest.Server
	// caFile has what its certificate is known by.
	caFile string
}

// oldKubelet adds nodes with such a kubelet.
func oldKubelet(t *testing.T, names ...string) *strictKubelet {
	t.Helper()
	k := &strictKubelet{caFile: filepath.Join(t.TempDir(), "kubelet-ca.crt")}
	k.Server = httptest.NewTLSServer(http.HandlerFunc(serveKubelet))
	t.Cleanup(k.Close)
	if err := os.WriteFile(k.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(k.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		t.Fatal(err)
	}
	nodes := host.Kubernetes.CoreV1().Nodes()
	for _, name := range names {
		made, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: true}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := nodes.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		status := fmt.Sprintf(`{"status":{"addresses":[{"type":"Hostname","address":"elsewhere.example.com"},{"type":"InternalIP","address":%q}],`+
			`"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}},"nodeInfo":{"kubeletVersion":"v1.35.0"}}}`, address.Hostname(), port)
		if _, err := nodes.Patch(t.Context(), made.Name, "application/strategic-merge-patch+json", []byte(status), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// oldPage is what matters here of what a kubelet serves.
const oldPage = `# HELP kubernetes_build_info [BETA] A metric with a constant '1' value labeled by major, minor, git version, and more.
# TYPE kubernetes_build_info gauge
kubernetes_build_info{compiler="gc",git_tree_state="clean",git_version="v1.35.0",major="1",minor="35",platform="linux/amd64"} 1
# HELP kubernetes_feature_enabled [BETA] This metric records the data about the stage and enablement of a k8s feature.
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="AllAlpha",stage="ALPHA"} 0
kubernetes_feature_enabled{name="NodeSwap",stage="BETA"} 0
kubernetes_feature_enabled{name="OnlyInKubelet",stage=""} 1
# HELP kubelet_node_name [ALPHA] The node's name. The count is always 1.
# TYPE kubelet_node_name gauge
kubelet_node_name{node="observed-1"} 1
`

func serveKubelet(w http.ResponseWriter, r *http.Request) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	review, err := host.Kubernetes.AuthenticationV1().TokenReviews().Create(r.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	access, err := host.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create(r.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: review.Status.User.Username, Groups: review.Status.User.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "nodes", Subresource: "metrics"},
	}}, metav1.CreateOptions{})
	switch {
	case err != nil || !access.Status.Allowed:
		http.Error(w, "Forbidden", http.StatusForbidden)
	case r.URL.Path != "/metrics":
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = fmt.Fprint(w, oldPage)
	}
}

// metricsReader makes an identity that may get metrics and nothing else, and returns its kubeconfig. Before it has the right, the
// kubelet turns it away.
func metricsReader(t *testing.T, kubelet *strictKubelet) string {
	t.Helper()
	const name, namespace = "metrics-reader", "kube-system"
	accounts := host.Kubernetes.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int{"": http.StatusUnauthorized, "nonsense": http.StatusUnauthorized, request.Status.Token: http.StatusForbidden} {
		if got := kubelet.get(t, token); got != want {
			t.Errorf("the kubelet answers %d to those without the right, want %d", got, want)
		}
	}
	roles, bindings := host.Kubernetes.RbacV1().ClusterRoles(), host.Kubernetes.RbacV1().ClusterRoleBindings()
	if _, err := roles.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes/metrics"}},
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, err := range []error{
			bindings.Delete(context.Background(), name, metav1.DeleteOptions{}), roles.Delete(context.Background(), name, metav1.DeleteOptions{}),
			accounts.Delete(context.Background(), name, metav1.DeleteOptions{}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: host.URL(), CertificateAuthority: host.Config.CAFile, CertificateAuthorityData: host.Config.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func (k *strictKubelet) get(t *testing.T, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, k.URL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := k.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
