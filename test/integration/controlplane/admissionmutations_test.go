// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/admissiontest"
)

func TestMutatingPolicies(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	createWidgetDefinition(t, h.Admin())
	admit(t, h, map[string]func(*testing.T, *admitted){
		"apply configurations":            policyApplies,
		"patch":                           policyPatches,
		"change custom resources":         policyChangesCustomResources,
		"come before validating policies": policyComesFirst,
		"are refused what is not there":   policyAppliesWhatIsNotThere,
	})
}

func apply(expression string) admissionregistrationv1.Mutation {
	return admissionregistrationv1.Mutation{
		PatchType: admissionregistrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: expression},
	}
}

func patch(expression string) admissionregistrationv1.Mutation {
	return admissionregistrationv1.Mutation{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: expression}}
}

// mutation is about ConfigMaps in the namespace of the test.
func (a *admitted) mutation(mutations ...admissionregistrationv1.Mutation) admissionregistrationv1.MutatingAdmissionPolicySpec {
	return admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints: admissiontest.Constraints("", "v1", "configmaps", a.namespace), Mutations: mutations,
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
	}
}

func policyApplies(t *testing.T, a *admitted) {
	params := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "applied"}, Data: map[string]string{"value": "given"}}
	must[*corev1.ConfigMap](t)(a.client.CoreV1().ConfigMaps(a.namespace).Create(t.Context(), params, metav1.CreateOptions{}))
	spec := a.mutation(apply("Object{data: {'added': params.data.value}}"))
	spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	admissiontest.MutatingPolicy(t, a.client, "applies", spec, admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
		ParamRef: &admissionregistrationv1.ParamRef{Name: "applied", ParameterNotFoundAction: ptr.To(admissionregistrationv1.DenyAction)},
	})
	eventually(t, func() error {
		configMap, err := a.configMap(t, "probe", dryRun)
		if err == nil && configMap.Data["added"] != "given" {
			err = fmt.Errorf("the data is %v", configMap.Data)
		}
		return err
	})
	stored := must[*corev1.ConfigMap](t)(a.configMap(t, "stored", metav1.CreateOptions{}))
	stored.Data["other"] = "x"
	delete(stored.Data, "added")
	updated := must[*corev1.ConfigMap](t)(a.client.CoreV1().ConfigMaps(a.namespace).Update(t.Context(), stored, metav1.UpdateOptions{}))
	if updated.Data["added"] != "given" || updated.Data["other"] != "x" {
		t.Errorf("after an update the data is %v", updated.Data)
	}
}

func policyPatches(t *testing.T, a *admitted) {
	spec := a.mutation(patch(`[
		JSONPatch{op: "test", path: "/metadata/name", value: object.metadata.name},
		JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/patched"), value: "yes"}
	]`))
	admissiontest.MutatingPolicy(t, a.client, "patches", spec, admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{})
	eventually(t, func() error {
		configMap, err := a.configMap(t, "probe", dryRun, "labelled")
		if err == nil && configMap.Labels["example.com/patched"] != "yes" {
			err = fmt.Errorf("the labels are %v", configMap.Labels)
		}
		return err
	})
}

func policyChangesCustomResources(t *testing.T, a *admitted) {
	spec := a.mutation(apply("Object{spec: Object.spec{size: object.spec.size + 1}}"), patch(`[JSONPatch{op: "add", path: "/metadata/labels", value: {"patched": "yes"}}]`))
	spec.MatchConstraints = admissiontest.Constraints(widgets.Group, "*", "widgets", a.namespace)
	admissiontest.MutatingPolicy(t, a.client, "custom-resources", spec, admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{})
	objects := anything(t, a.Admin()).Resource(widgets).Namespace(a.namespace)
	eventually(t, func() error {
		widget, err := objects.Create(t.Context(), widget("probe"), dryRun)
		if err != nil {
			return err
		}
		size, _, _ := unstructured.NestedInt64(widget.Object, "spec", "size")
		if size != 2 || widget.GetLabels()["patched"] != "yes" {
			return fmt.Errorf("the size is %d, the labels are %v", size, widget.GetLabels())
		}
		return nil
	})
}

// policyComesFirst has a webhook and a policy see, and refuse, what a mutating policy has made of an object.
func policyComesFirst(t *testing.T, a *admitted) {
	hook := admissiontest.Start(t, admissiontest.Allow)
	admissiontest.Mutate(t, a.client, "sees-the-policy", a.mutating(hook.ByURL("/")))
	admissiontest.MutatingPolicy(t, a.client, "comes-first", a.mutation(apply("Object{data: {'bad': 'yes'}}")), admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{})
	spec := a.policy("!('bad' in object.?data.orValue({}))")
	admissiontest.Policy(t, a.client, "comes-second", spec, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: denies})
	a.refused(t, "probe", "failed expression")
	eventually(t, func() error {
		_, _ = a.configMap(t, "probe", dryRun)
		reviews := hook.Reviews()
		if len(reviews) == 0 || !strings.Contains(string(reviews[len(reviews)-1].Object.Raw), `"bad":"yes"`) {
			return errors.New("the webhook has not seen what the policy did")
		}
		return nil
	})
}

func policyAppliesWhatIsNotThere(t *testing.T, a *admitted) {
	spec := a.mutation(apply("Object{nonsense: 'x'}"))
	spec.FailurePolicy = ptr.To(admissionregistrationv1.Fail)
	admissiontest.MutatingPolicy(t, a.client, "nonsense", spec, admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{})
	eventually(t, func() error {
		if _, err := a.configMap(t, "probe", dryRun); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "nonsense") {
			return fmt.Errorf("got %v, want 422", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}
