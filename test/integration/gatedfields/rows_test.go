// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gatedfields_test

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
)

type object = map[string]any

// row is one gated field.
type row struct {
	gate     string
	rejected bool
	// path is what users are told, and leaf what managed fields and raw bytes of those who have the field contain.
	path, leaf, value string
	// subresource is where the field is written; empty is the resource itself.
	subresource string
	// with and without are the part, "spec" or "status", of an object that has the field and of one that does not.
	with, without object
	// merge, json and strategic are patches that set it. Strategic merge patches cannot reach into maps of structs.
	merge, strategic object
	json             []object
}

func (r row) part() string {
	if r.subresource != "" {
		return r.subresource
	}
	return "spec"
}

// has tells whether an object has the field.
func (r row) has(obj *unstructured.Unstructured) bool {
	return obj != nil && contains(obj.Object[r.part()], r.value)
}

func contains(in any, value string) bool {
	switch in := in.(type) {
	case string:
		return in == value
	case int64:
		return value == "41414141" && in == 41414141
	case object:
		for _, one := range in {
			if contains(one, value) {
				return true
			}
		}
	case []any:
		for _, one := range in {
			if contains(one, value) {
				return true
			}
		}
	}
	return false
}

var rows = map[string]row{
	"spec.color": {
		gate: color, path: "spec.color", leaf: "f:color", value: "vermilion",
		with:      object{"width": int64(1), "color": "vermilion"},
		without:   object{"width": int64(1)},
		merge:     object{"spec": object{"color": "vermilion"}},
		strategic: object{"spec": object{"color": "vermilion"}},
		json:      []object{{"op": "add", "path": "/spec/color", "value": "vermilion"}},
	},
	"spec.parts[].material": {
		gate: material, path: "spec.parts[*].material", leaf: "f:material", value: "bakelite",
		with:      object{"width": int64(1), "parts": []any{object{"name": "a"}, object{"name": "b", "material": "bakelite"}}},
		without:   object{"width": int64(1), "parts": []any{object{"name": "a"}, object{"name": "b"}}},
		merge:     object{"spec": object{"parts": []any{object{"name": "a"}, object{"name": "b", "material": "bakelite"}}}},
		strategic: object{"spec": object{"parts": []any{object{"name": "b", "material": "bakelite"}}}},
		json:      []object{{"op": "add", "path": "/spec/parts/1/material", "value": "bakelite"}},
	},
	"spec.parts[].bolts": {
		gate: bolts, rejected: true, path: "spec.parts[*].bolts", leaf: "f:bolts", value: "41414141",
		with:      object{"width": int64(1), "parts": []any{object{"name": "a", "bolts": []any{object{"length": int64(41414141)}}}}},
		without:   object{"width": int64(1), "parts": []any{object{"name": "a"}}},
		merge:     object{"spec": object{"parts": []any{object{"name": "a", "bolts": []any{object{"length": int64(41414141)}}}}}},
		strategic: object{"spec": object{"parts": []any{object{"name": "a", "bolts": []any{object{"length": int64(41414141)}}}}}},
		json:      []object{{"op": "add", "path": "/spec/parts/0/bolts", "value": []any{object{"length": int64(41414141)}}}},
	},
	"spec.labelsByZone{}.note": {
		gate: material, path: "spec.labelsByZone[*].note", leaf: "f:note", value: "brittle",
		with:    object{"width": int64(1), "labelsByZone": object{"north": object{"label": "x"}, "south": object{"label": "y", "note": "brittle"}}},
		without: object{"width": int64(1), "labelsByZone": object{"north": object{"label": "x"}, "south": object{"label": "y"}}},
		merge:   object{"spec": object{"labelsByZone": object{"south": object{"note": "brittle"}}}},
		json:    []object{{"op": "add", "path": "/spec/labelsByZone/south/note", "value": "brittle"}},
	},
	"status.summary": {
		gate: color, path: "status.summary", leaf: "f:summary", value: "reddish", subresource: "status",
		with:      object{"count": int64(1), "summary": "reddish"},
		without:   object{"count": int64(1)},
		merge:     object{"status": object{"summary": "reddish"}},
		strategic: object{"status": object{"summary": "reddish"}},
		json:      []object{{"op": "add", "path": "/status/summary", "value": "reddish"}},
	},
}

// body returns an object with the part.
func (r row) body(name string, part object) *unstructured.Unstructured {
	out := widget(name, object{"width": int64(1)})
	out.Object[r.part()] = (&unstructured.Unstructured{Object: part}).DeepCopy().Object
	return out
}

func (r row) subresources() []string {
	if r.subresource == "" {
		return nil
	}
	return []string{r.subresource}
}

// create stores an object with the part, written by the first writer.
func (r row) create(t *testing.T, c client, name string, part object) *unstructured.Unstructured {
	t.Helper()
	out, err := c.Create(t.Context(), r.body(name, part), metav1.CreateOptions{FieldManager: firstWriter})
	if err == nil && r.subresource != "" {
		update := r.body(name, part)
		update.SetResourceVersion(out.GetResourceVersion())
		out, err = c.UpdateStatus(t.Context(), update, metav1.UpdateOptions{FieldManager: firstWriter})
	}
	if err != nil {
		t.Fatal(err)
	}
	c.taken()
	return out
}

// verb is one way to write a field.
type verb struct {
	strategic bool
	// creates is set where the object is not there before.
	creates bool
	write   func(t *testing.T, c client, r row, name string, current *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error)
}

var verbs = map[string]verb{
	"create": {creates: true, write: func(t *testing.T, c client, r row, name string, _ *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
		return c.Create(t.Context(), r.body(name, r.with), metav1.CreateOptions{FieldManager: secondWriter, DryRun: dryRun(dry), FieldValidation: metav1.FieldValidationStrict})
	}},
	"create on update": {creates: true, write: func(t *testing.T, c client, r row, name string, _ *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
		return c.Update(t.Context(), r.body(name, r.with), metav1.UpdateOptions{FieldManager: secondWriter, DryRun: dryRun(dry), FieldValidation: metav1.FieldValidationStrict})
	}},
	"create by apply": {creates: true, write: apply},
	"apply":           {write: apply},
	"put": {write: func(t *testing.T, c client, r row, name string, current *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
		body := r.body(name, r.with)
		body.SetResourceVersion(current.GetResourceVersion())
		return c.Update(t.Context(), body, metav1.UpdateOptions{FieldManager: secondWriter, DryRun: dryRun(dry), FieldValidation: metav1.FieldValidationStrict}, r.subresources()...)
	}},
	"merge patch": {write: func(t *testing.T, c client, r row, name string, _ *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
		return c.Patch(t.Context(), name, types.MergePatchType, encode(t, r.merge), patchOptions(secondWriter, dry), r.subresources()...)
	}},
	"strategic merge patch": {strategic: true, write: func(t *testing.T, c client, r row, name string, _ *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
		return c.Patch(t.Context(), name, types.StrategicMergePatchType, encode(t, r.strategic), patchOptions(secondWriter, dry), r.subresources()...)
	}},
	"JSON patch": {write: func(t *testing.T, c client, r row, name string, _ *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
		return c.Patch(t.Context(), name, types.JSONPatchType, encode(t, r.json), patchOptions(secondWriter, dry), r.subresources()...)
	}},
}

func apply(t *testing.T, c client, r row, name string, _ *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	return c.Patch(t.Context(), name, types.ApplyPatchType, encode(t, r.body(name, r.with)),
		patchOptions(secondWriter, dry), r.subresources()...)
}

// situation is what permits or does not permit the fields.
type situation struct {
	state     featuresv1alpha1.State // empty is no Feature at all
	tasks     []string
	own       bool
	permitted bool
}

var situations = map[string]situation{
	"on":                                 {state: on, permitted: true},
	"off":                                {state: off},
	"off, own gate on":                   {state: off, own: true},
	"turning off":                        {state: turningOff, own: true},
	"turning on, preparing":              {state: turningOn, tasks: []string{"InstallCRD", "WaitForUses"}},
	"turning on, waiting for all to see": {state: turningOn, tasks: []string{"WaitForUses"}, permitted: true},
	"no feature, own gate on":            {own: true, permitted: true},
	"no feature, own gate off":           {},
}

func (s situation) gates() map[string]bool {
	out := map[string]bool{}
	for gate := range maps.Values(rows) {
		out[gate.gate] = s.own
	}
	return out
}
