// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/server/admissiontest"
)

// TestQuantitiesInExpressionsAreLimited writes objects with text that takes the library seconds of a core to compute with, which it then
// accepts as a quantity.
func TestQuantitiesInExpressionsAreLimited(t *testing.T) {
	t.Parallel()
	admit(t, startHost(t, nil), map[string]func(*testing.T, *admitted){
		"validating policies":     quantityInValidatingPolicy,
		"mutating policies":       quantityInMutatingPolicy,
		"conditions of webhooks":  quantityInMatchCondition,
		"rules of definitions":    quantityInDefinition,
		"literals in definitions": quantityLiteralInDefinition,
	})
}

// quantityText has expensive quantities, with a part of the refusal.
var quantityText = map[string]string{
	"1e30000000": "exponent that is out of range", "1e-30000000": "exponent that is out of range", strings.Repeat("9", 65): "at most 64",
}

// isAboveOne fails where x is no quantity.
const isAboveOne = "quantity(object.data.x).isGreaterThan(quantity('1'))"

// quantity tries to create a ConfigMap with the text.
func (a *admitted) quantity(t *testing.T, text string) (*corev1.ConfigMap, error) {
	t.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "quantity"}, Data: map[string]string{"x": text}}
	return a.client.CoreV1().ConfigMaps(a.namespace).Create(t.Context(), configMap, dryRun)
}

// quantityRefused waits until text that is no quantity is refused, and checks that expensive quantities are.
func (a *admitted) quantityRefused(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if _, err := a.quantity(t, "none"); err == nil || !strings.Contains(err.Error(), "quantities must match") {
			return fmt.Errorf("got %v, want a refusal of what is no quantity", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
	for text, want := range quantityText {
		if _, err := a.quantity(t, text); !isRefusal(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a refusal with %q", text, err, want)
		}
	}
}

func isRefusal(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) }

func quantityInValidatingPolicy(t *testing.T, a *admitted) {
	admissiontest.Policy(t, a.client, "quantity", a.policy(isAboveOne), admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: denies})
	a.quantityRefused(t)
	if _, err := a.quantity(t, "1500m"); err != nil {
		t.Errorf("1500m: %v", err)
	}
	if _, err := a.quantity(t, "1e-3"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "failed expression") {
		t.Errorf("1e-3: got %v, want what the policy says", err)
	}
}

func quantityInMutatingPolicy(t *testing.T, a *admitted) {
	spec := a.mutation(apply("Object{data: {'size': " + isAboveOne + " ? 'large' : 'small'}}"))
	admissiontest.MutatingPolicy(t, a.client, "quantity", spec, admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{})
	a.quantityRefused(t)
	for text, want := range map[string]string{"1Gi": "large", "1m": "small"} {
		configMap, err := a.quantity(t, text)
		if err != nil || configMap.Data["size"] != want {
			t.Errorf("%s: got %v and error %v, want %s", text, configMap.Data, err, want)
		}
	}
}

func quantityInMatchCondition(t *testing.T, a *admitted) {
	webhook := a.validating(admissiontest.Start(t, admissiontest.Deny("the webhook says no")).ByURL("/"))
	webhook.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "quantity", Expression: isAboveOne}}
	admissiontest.Validate(t, a.client, "quantity", webhook)
	a.quantityRefused(t)
	if _, err := a.quantity(t, "2k"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the webhook says no") {
		t.Errorf("2k: got %v, want what the webhook says", err)
	}
	if _, err := a.quantity(t, "1n"); err != nil {
		t.Errorf("1n does not meet the condition: %v", err)
	}
}

// quantified defines a kind with one field, whose rules apply.
func (a *admitted) quantified(t *testing.T, plural string, rules ...string) (create func(text string) error) {
	t.Helper()
	resource := schema.GroupVersionResource{Group: "quantities.example.com", Version: "v1", Resource: plural}
	var validations apiextensionsv1.ValidationRules
	for _, rule := range rules {
		validations = append(validations, apiextensionsv1.ValidationRule{Rule: rule})
	}
	root := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"x": {Type: "string", XValidations: validations}}}
	kind := strings.ToUpper(plural[:1]) + plural[1:]
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + resource.Group}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: resource.Group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: resource.Version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
		}},
	}}
	must[*apiextensionsv1.CustomResourceDefinition](t)(definitions(t, a.Admin()).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), definition, metav1.CreateOptions{}))
	client := anything(t, a.Admin()).Resource(resource).Namespace(a.namespace)
	return func(text string) error {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": "quantity"}, "x": text,
		}}
		_, err := client.Create(t.Context(), object, dryRun)
		return err
	}
}

func quantityInDefinition(t *testing.T, a *admitted) {
	measured := a.quantified(t, "measured", "quantity(self).isGreaterThan(quantity('1'))")
	named := a.quantified(t, "named", "isQuantity(self)")
	for text, create := range map[string]func(string) error{"2": measured, "1m": named} {
		eventually(t, func() error { return create(text) })
	}
	for text, want := range quantityText {
		if err := measured(text); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a refusal with %q", text, err, want)
		}
		if err := named(text); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "failed rule: isQuantity(self)") {
			t.Errorf("%s: got %v, want that it is no quantity", text, err)
		}
	}
	if err := measured("1e-3"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "failed rule") {
		t.Errorf("1e-3: got %v, want what the rule says", err)
	}
}

func quantityLiteralInDefinition(t *testing.T, a *admitted) {
	create := a.quantified(t, "literals", "quantity('1e30000000').isGreaterThan(quantity('1'))")
	eventually(t, func() error {
		if err := create("x"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "exponent that is out of range") {
			return fmt.Errorf("got %v, want a refusal of the quantity of the rule", err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}
