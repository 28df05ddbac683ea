// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/server/controlplane"
)

// admitted is a host with a namespace of a test's own.
type admitted struct {
	*host
	client    kubernetes.Interface
	namespace string
}

// admit runs the tests side by side on one host, each in a namespace of its own.
func admit(t *testing.T, h *host, tests map[string]func(*testing.T, *admitted)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := core(t, h.Admin())
			test(t, &admitted{h, client, h.namespace(t)})
		})
	}
}

// configMap tries to create a ConfigMap, in a dry run if a test asks again and again.
func (a *admitted) configMap(t *testing.T, name string, options metav1.CreateOptions, labels ...string) (*corev1.ConfigMap, error) {
	t.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		configMap.Labels[label] = "yes"
	}
	return a.client.CoreV1().ConfigMaps(a.namespace).Create(t.Context(), configMap, options)
}

// mutating and validating are about ConfigMaps in the namespace of the test.
func (a *admitted) mutating(config admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		ClientConfig: config, Rules: []admissionregistrationv1.RuleWithOperations{admissiontest.Rule("", "v1", "configmaps")}, NamespaceSelector: admissiontest.In(a.namespace),
	}
}

func (a *admitted) validating(config admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		ClientConfig: config, Rules: []admissionregistrationv1.RuleWithOperations{admissiontest.Rule("", "v1", "configmaps")}, NamespaceSelector: admissiontest.In(a.namespace),
	}
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

func widget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": map[string]any{"size": int64(1)},
	}}
}

// mayI asks whether the user may do something to all of a kind.
func mayI(t *testing.T, config *rest.Config, verb, resource string) bool {
	t.Helper()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource},
	}}
	review = must[*authorizationv1.SelfSubjectAccessReview](t)(core(t, config).AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}))
	return review.Status.Allowed
}

// allow gives a user a right in the cluster.
func (a *admitted) allow(t *testing.T, user, verb, group, resource string) {
	t.Helper()
	roles := core(t, a.Admin()).RbacV1()
	role := must[*rbacv1.ClusterRole](t)(roles.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}},
	}, metav1.CreateOptions{}))
	must[*rbacv1.ClusterRoleBinding](t)(roles.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{}))
}

// audited has a host write an audit log, whose file is returned.
func audited(t *testing.T, level string) (file string, adjust func(*controlplane.Options)) {
	t.Helper()
	dir := t.TempDir()
	policy, file := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	content := "kind: Policy\napiVersion: audit.k8s.io/v1\nrules:\n- level: " + level + "\n"
	if err := os.WriteFile(policy, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, func(o *controlplane.Options) {
		flags := pflag.NewFlagSet("audit", pflag.ContinueOnError)
		o.Audit.AddFlags(flags)
		if err := flags.Parse([]string{"--audit-policy-file=" + policy, "--audit-log-path=" + file}); err != nil {
			t.Error(err)
		}
	}
}

// heardWarnings remembers the warnings of answers.
type heardWarnings struct {
	mu   sync.Mutex
	text []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (h *heardWarnings) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, text)
}

func (h *heardWarnings) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := slices.Compact(h.text)
	h.text = nil
	return strings.Join(text, "; ")
}
