// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissiontest

import (
	"context"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// Mutate has a mutating webhook of the name called until the test ends. A name, an admission version and no side effects are filled in.
func Mutate(t testing.TB, client kubernetes.Interface, name string, hooks ...admissionregistrationv1.MutatingWebhook) {
	t.Helper()
	for i := range hooks {
		complete(name, &hooks[i].Name, &hooks[i].SideEffects, &hooks[i].AdmissionReviewVersions)
	}
	all := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := all.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
}

// Validate does the same with a validating webhook.
func Validate(t testing.TB, client kubernetes.Interface, name string, hooks ...admissionregistrationv1.ValidatingWebhook) {
	t.Helper()
	for i := range hooks {
		complete(name, &hooks[i].Name, &hooks[i].SideEffects, &hooks[i].AdmissionReviewVersions)
	}
	all := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := all.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
}

func complete(configuration string, name *string, sideEffects **admissionregistrationv1.SideEffectClass, versions *[]string) {
	if *name == "" {
		*name = configuration + ".example.com"
	}
	if *sideEffects == nil {
		*sideEffects = ptr.To(admissionregistrationv1.SideEffectClassNone)
	}
	*versions = []string{"v1"}
}

// Policy has a validating policy enforced by a binding of the same name until the test ends.
func Policy(t testing.TB, client kubernetes.Interface, name string, spec admissionregistrationv1.ValidatingAdmissionPolicySpec, binding admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec) {
	t.Helper()
	policies, bindings := client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	meta := metav1.ObjectMeta{Name: name}
	if _, err := policies.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding.PolicyName = name
	if _, err := bindings.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: binding}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = bindings.Delete(ctx, name, metav1.DeleteOptions{})
		_ = policies.Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// MutatingPolicy does the same with a mutating policy.
func MutatingPolicy(t testing.TB, client kubernetes.Interface, name string, spec admissionregistrationv1.MutatingAdmissionPolicySpec, binding admissionregistrationv1.MutatingAdmissionPolicyBindingSpec) {
	t.Helper()
	policies, bindings := client.AdmissionregistrationV1().MutatingAdmissionPolicies(), client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	meta := metav1.ObjectMeta{Name: name}
	if _, err := policies.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding.PolicyName = name
	if _, err := bindings.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: binding}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = bindings.Delete(ctx, name, metav1.DeleteOptions{})
		_ = policies.Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// Constraints are about creations and updates of one resource, in one namespace if it is named.
func Constraints(group, version, resource, namespace string) *admissionregistrationv1.MatchResources {
	constraints := &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
		},
	}}}
	if namespace != "" {
		constraints.NamespaceSelector = In(namespace)
	}
	return constraints
}

// In selects a namespace by its name.
func In(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}
}
