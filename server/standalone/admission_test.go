// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/server/admissiontest"
)

// TestAWebhookThatRefusesEverythingCanBeRemoved has one that is down and must not keep the server from starting, or nobody could remove it.
func TestAWebhookThatRefusesEverythingCanBeRemoved(t *testing.T) {
	t.Parallel()
	r := run(t, t.TempDir())
	client, err := kubernetes.NewForConfig(r.server.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	down := admissiontest.Start(t, admissiontest.Allow)
	down.Stop()
	admissiontest.Validate(t, client, "refuses-everything", admissionregistrationv1.ValidatingWebhook{
		ClientConfig: down.ByURL("/"), Rules: []admissionregistrationv1.RuleWithOperations{admissiontest.Rule("*", "*", "*/*")},
	})
	r.stop(t)

	again := begin(t, r.dir)
	again.waitFor(t, `failed calling webhook "refuses-everything.example.com"`)
	config, err := clientcmd.BuildConfigFromFlags("", again.server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap, metav1.CreateOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("writing while the webhook is down: got %v, want 500", err)
	}
	if err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "refuses-everything", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again.waitReady(t)
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}
