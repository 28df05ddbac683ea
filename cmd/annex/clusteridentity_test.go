// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
)

// TestMetricsSayWhichCluster reads what `curl /metrics` would, of `annex up` and of `annex controllers` beside it.
func TestMetricsSayWhichCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	up, client := startUp(t, dir, "--cluster-id-source=None")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	annex, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	address := freeURL(t)
	beside := startAnnex(t, "controllers", "--kubeconfig="+kubeconfig, "--secure-port="+address.Port(), "--leader-elect-namespace=elsewhere",
		"--cluster-id-source=None", "--client-ca-file="+filepath.Join(dir, "pki", "client-ca.crt"))
	besideConfig := *config
	besideConfig.Host, besideConfig.CAFile, besideConfig.CAData, besideConfig.Insecure = "https://"+address.Host, "", nil, true
	besideClient, err := kubernetes.NewForConfig(&besideConfig)
	if err != nil {
		t.Fatal(err)
	}

	want := func(labels string) {
		t.Helper()
		for p, client := range map[*process]kubernetes.Interface{up: client, beside: besideClient} {
			poll(t, p, func(ctx context.Context) error {
				page, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
				if err != nil {
					return err
				}
				var found []string
				for line := range strings.Lines(string(page)) {
					if strings.HasPrefix(line, "annex_cluster_info") {
						found = append(found, strings.TrimSpace(line))
					}
				}
				if len(found) != 1 || found[0] != "annex_cluster_info{"+labels+"} 1" {
					return fmt.Errorf("the metrics say %q, want %s", found, labels)
				}
				return nil
			})
		}
	}
	want(`clusterset="",id=""`)
	for _, claim := range []struct{ name, value, want string }{
		{"id.k8s.io", "cluster-1", `clusterset="",id="cluster-1"`},
		{"clusterset.k8s.io", "fleet.example", `clusterset="fleet.example",id="cluster-1"`},
	} {
		object := &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.name}, Spec: v1alpha1.ClusterClaimSpec{Value: claim.value}}
		if _, err := annex.MulticlusterV1alpha1().ClusterClaims().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		want(claim.want)
	}
	for _, p := range []*process{beside, up} {
		p.signal(t, syscall.SIGINT)
		if code := p.wait(t); code != 0 {
			t.Errorf("exit code is %d; stderr:\n%s", code, p.stderr.String())
		}
	}
}
