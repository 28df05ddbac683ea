// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/test/framework"
)

// TestTheClusterAcceptsTheManifests has a real kube-apiserver validate artifacts/deploy, in a namespace of the test's own.
func TestTheClusterAcceptsTheManifests(t *testing.T) {
	const namespace = "deploy"
	if _, err := host.Kubernetes.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectl := framework.NewKubectl(t, root, host.Kubeconfig)
	for overlay, want := range map[string][]string{
		"base":          {"deployment.apps/annex-apiserver ", "deployment.apps/annex-controllers ", "persistentvolumeclaim/annex-apiserver ", "poddisruptionbudget.policy/annex-apiserver ", "apiservice.apiregistration.k8s.io/v1alpha1.node.k8s.io "},
		"balloons":      {"daemonset.apps/node-balloon ", "priorityclass.scheduling.k8s.io/node-balloon ", "clusterrolebinding.rbac.authorization.k8s.io/annex-node-balloons ", "rolebinding.rbac.authorization.k8s.io/annex-node-balloons "},
		"external-etcd": {"deployment.apps/annex-apiserver ", "deployment.apps/annex-controllers ", "poddisruptionbudget.policy/annex-apiserver ", "apiservice.apiregistration.k8s.io/v1alpha1.node.k8s.io "},
	} {
		t.Run(overlay, func(t *testing.T) {
			objects := kubectl.Run(t, "kustomize", "artifacts/deploy/"+overlay)
			file := filepath.Join(t.TempDir(), "objects.yaml")
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(objects, "annex-system", namespace)), 0o600); err != nil {
				t.Fatal(err)
			}
			output := kubectl.Run(t, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", file)
			for _, object := range want {
				if !strings.Contains(output, object) {
					t.Errorf("%sis not among what was applied:\n%s", object, output)
				}
			}
			if strings.Contains(output, "Warning") {
				t.Errorf("the cluster warns:\n%s", output)
			}
		})
	}
}
