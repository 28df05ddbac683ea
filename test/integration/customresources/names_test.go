// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/test/framework"
)

// anything is a schema for everything.
const anything = "versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]"

// testNames has definitions that want the same names: the second one gets them when the first one is gone.
func testNames(t *testing.T, w *world) {
	w.define(t, "Named", "names: {plural: named, singular: named, shortNames: [nm]}\n"+anything)
	later := parse(t, "Named", "names: {plural: alsonamed, singular: named, shortNames: [nm]}\n"+anything)
	if _, err := w.definitions().Create(t.Context(), later, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wantCondition(t, "alsonamed", apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionFalse, "is already in use")
	w.wantCondition(t, "alsonamed", apiextensionsv1.Established, apiextensionsv1.ConditionFalse, "not all names are accepted")
	o := w.objects("alsonamed", "Named", "v1")
	if _, err := o.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("objects of a kind that is not established: got %v, want 404", err)
	}
	if err := w.definitions().Delete(t.Context(), "named."+group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wantCondition(t, "alsonamed", apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionTrue, "no conflicts found")
	w.wantCondition(t, "alsonamed", apiextensionsv1.Established, apiextensionsv1.ConditionTrue, "the initial names have been accepted")
	framework.Eventually(t, patience, func() error {
		_, err := o.Create(t.Context(), o.object(t, "a", "{}"), metav1.CreateOptions{})
		return err
	})
}

// testDeletion deletes a definition with its objects, and makes it anew.
func testDeletion(t *testing.T, w *world) {
	o := w.define(t, "Deleted", "names: {plural: deleted}\n"+anything)
	for i := range 3 {
		o.create(t, fmt.Sprintf("a%d", i), "{}")
	}
	// Beside the server's own finalizer, without which objects would be left behind in the store.
	const held = "test.example.com/hold"
	w.change(t, "deleted", func(definition *apiextensionsv1.CustomResourceDefinition) {
		definition.Finalizers = append(definition.Finalizers, held)
	})
	if err := w.definitions().Delete(t.Context(), "deleted."+group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.wantCondition(t, "deleted", apiextensionsv1.Terminating, apiextensionsv1.ConditionFalse, "removed all instances")
	if list, err := o.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("objects of a kind that is being deleted: %v %v, want none", list, err)
	}
	if _, err := o.Create(t.Context(), o.object(t, "late", "{}"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "terminating") {
		t.Errorf("an object of a kind that is being deleted: got %v, want 403", err)
	}
	w.change(t, "deleted", func(definition *apiextensionsv1.CustomResourceDefinition) { definition.Finalizers = nil })
	framework.Eventually(t, patience, func() error {
		if _, err := w.definitions().Get(t.Context(), "deleted."+group, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errNotYet("the deletion", err)
		}
		if _, err := o.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			return errNotYet("the deletion for clients", err)
		}
		for _, resource := range w.discovered(t, "v1") {
			if resource.Resource == "deleted" {
				return errors.New("a deleted kind is in discovery")
			}
		}
		return nil
	})
	again := w.define(t, "Deleted", "names: {plural: deleted}\n"+oneVersion("spec: {type: object, properties: {size: {type: integer}}}"))
	framework.Eventually(t, patience, func() error {
		_, err := again.Create(t.Context(), again.object(t, "b", "spec: {size: 1}"), metav1.CreateOptions{})
		return err
	})
	list, err := again.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "b" {
		t.Errorf("made anew: %v %v, want one object", list, err)
	}
}

// testBrokenDefinitions has definitions that cannot be: each is refused with what is wrong, and those that are there go on.
func testBrokenDefinitions(t *testing.T, w *world) {
	o := w.define(t, "Whole", "names: {plural: wholes}\n"+oneVersion("spec: {type: object, properties: {size: {type: integer}}}"))
	for name, tc := range map[string]struct {
		spec string
		want string
	}{
		"no schema":           {"versions: [{name: v1, served: true, storage: true}]", "schema.openAPIV3Schema: Required value"},
		"no storage":          {"versions: [{name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}]", "must have exactly one version marked as storage version"},
		"not structural":      {oneVersion("spec: {properties: {size: {type: integer}}}"), "openAPIV3Schema.properties[spec].type: Required value"},
		"a wrong default":     {oneVersion("spec: {type: object, properties: {size: {type: integer, default: large}}}"), "default: Invalid value"},
		"a rule that is none": {oneVersion("spec: {type: object, x-kubernetes-validations: [{rule: 'self.'}], properties: {size: {type: integer}}}"), "compilation failed"},
		"a dear rule": {
			oneVersion("spec: {type: array, items: {type: array, items: {type: string, x-kubernetes-validations: [{rule: \"self.contains('x')\"}]}}}"),
			"estimated rule cost exceeds budget",
		},
		"a field nobody has": {oneVersion("spec: {type: object, properties: {size: {type: integer}}}") + "\n  selectableFields: [{jsonPath: .spec.none}]", "selectableFields[0].jsonPath: Invalid value"},
		"no key":             {oneVersion("spec: {type: array, x-kubernetes-list-type: map, items: {type: object, properties: {a: {type: string}}}}"), "x-kubernetes-list-map-keys: Required value"},
	} {
		_, err := w.definitions().Create(t.Context(), parse(t, "Broken", "names: {plural: brokens}\n"+tc.spec), metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want 422 with %q", name, err, tc.want)
		}
	}
	o.create(t, "a", "spec: {size: 1}")
}
