// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/framework"
)

// testValidation has the schema refuse and prune.
func testValidation(t *testing.T, w *world) {
	o := w.define(t, "Checked", "names: {plural: checked}\n"+oneVersion(`
spec:
  type: object
  required: [size]
  properties:
    size: {type: integer, minimum: 1, maximum: 10}
    mode: {type: string, enum: [fast, slow]}
    name: {type: string, pattern: '^[a-z]+$', maxLength: 5}
    port: {x-kubernetes-int-or-string: true}
    list: {type: array, maxItems: 2, x-kubernetes-list-type: set, items: {type: string}}
    when: {type: string, format: date-time}
    free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: integer}}}
    embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
    map: {type: object, additionalProperties: {type: integer}}`))
	for name, tc := range map[string]struct {
		spec string
		// want is what the stored spec is, or what the error says.
		want    map[string]any
		refused string
	}{
		"in order":         {spec: `{size: 1, mode: fast, port: http}`, want: map[string]any{"size": int64(1), "mode": "fast", "port": "http"}},
		"a number":         {spec: `{size: 10, port: 80}`, want: map[string]any{"size": int64(10), "port": int64(80)}},
		"too little":       {spec: `{size: 0}`, refused: "spec.size in body should be greater than or equal to 1"},
		"too much":         {spec: `{size: 11}`, refused: "spec.size in body should be less than or equal to 10"},
		"of another type":  {spec: `{size: large}`, refused: "spec.size in body must be of type integer"},
		"nothing":          {spec: `{}`, refused: "spec.size: Required value"},
		"no mode":          {spec: `{size: 1, mode: maybe}`, refused: `spec.mode: Unsupported value: "maybe": supported values: "fast", "slow"`},
		"a wrong name":     {spec: `{size: 1, name: A}`, refused: "spec.name in body should match '^[a-z]+$'"},
		"a long name":      {spec: `{size: 1, name: abcdef}`, refused: "spec.name: Too long: may not be more than 5 bytes"},
		"no time":          {spec: `{size: 1, when: today}`, refused: "spec.when in body must be of type date-time"},
		"twice":            {spec: `{size: 1, list: [a, a]}`, refused: `spec.list[1]: Duplicate value: "a"`},
		"too many":         {spec: `{size: 1, list: [a, b, c]}`, refused: "spec.list: Too many: 3: must have at most 2 items"},
		"of another map":   {spec: `{size: 1, map: {a: b}}`, refused: "spec.map.a in body must be of type integer"},
		"unknown":          {spec: `{size: 1, unknown: 1}`, want: map[string]any{"size": int64(1)}},
		"unknown, deep":    {spec: `{size: 1, map: {a: 1}, free: {x: {z: 1}}}`, want: map[string]any{"size": int64(1), "map": map[string]any{"a": int64(1)}, "free": map[string]any{"x": map[string]any{"z": int64(1)}}}},
		"known, preserved": {spec: `{size: 1, free: {known: x}}`, refused: "spec.free.known in body must be of type integer"},
		"an object in it":  {spec: `{size: 1, embedded: {apiVersion: v1, kind: X, metadata: {name: a, unknown: 1}, data: 1}}`, want: map[string]any{"size": int64(1), "embedded": map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"name": "a"}, "data": int64(1)}}},
		"no object in it":  {spec: `{size: 1, embedded: {kind: X}}`, refused: "spec.embedded.apiVersion: Required value"},
		"no proper name":   {spec: `{size: 1, embedded: {apiVersion: v1, kind: X, metadata: {name: a/b}}}`, refused: "spec.embedded.metadata.name: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {

			created, err := o.Create(t.Context(), o.object(t, strings.NewReplacer(" ", "-", ",", "").Replace(name), "spec: "+tc.spec), metav1.CreateOptions{})
			if tc.refused != "" {
				wantInvalid(t, err, tc.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, created.Object["spec"]); diff != "" {
				t.Errorf("what is stored (-want,+got):\n%s", diff)
			}
		})
	}
}

// testRules has CEL rules with all they can say.
func testRules(t *testing.T, w *world) {
	o := w.define(t, "Ruled", "names: {plural: ruled}\n"+oneVersion(`
spec:
  type: object
  x-kubernetes-validations:
  - {rule: "self.least <= self.most", messageExpression: "self.least > 2 ? 'it is much more than the most' : 'it is more than the most'", reason: FieldValueForbidden, fieldPath: ".least"}
  - {rule: "!has(self.token) || self.token != ''", message: "say something", reason: FieldValueRequired, fieldPath: ".token"}
  - {rule: "has(self.final) || !has(oldSelf.final)", message: "what is final stays"}
  properties:
    least: {type: integer}
    most: {type: integer}
    token: {type: string}
    final: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf", message: "it is final"}]}
    born: {type: string, x-kubernetes-validations: [{rule: "oldSelf.hasValue() || self == 'new'", optionalOldSelf: true, message: "it begins as new"}]}`))
	_, err := o.Create(t.Context(), o.object(t, "a", "spec: {least: 3, most: 2}"), metav1.CreateOptions{})
	wantInvalid(t, err, "spec.least: Forbidden: it is much more than the most")
	_, err = o.Create(t.Context(), o.object(t, "a", "spec: {least: 1, most: 2, token: ''}"), metav1.CreateOptions{})
	wantInvalid(t, err, "spec.token: Required value: say something")
	_, err = o.Create(t.Context(), o.object(t, "a", "spec: {least: 1, most: 2, born: old}"), metav1.CreateOptions{})
	wantInvalid(t, err, "it begins as new")
	o.create(t, "a", "spec: {least: 1, most: 2, final: x, born: new}")
	_, err = o.merge(t.Context(), "a", `{"spec":{"final":"y"}}`)
	wantInvalid(t, err, "spec.final: Invalid value", "it is final")
	_, err = o.merge(t.Context(), "a", `{"spec":{"final":null}}`)
	wantInvalid(t, err, "what is final stays")
	if _, err := o.merge(t.Context(), "a", `{"spec":{"born":"old","most":3}}`); err != nil {
		t.Error(err)
	}
}

// testRatcheting tightens a schema: what was stored before may stay, and nothing of the kind may come.
func testRatcheting(t *testing.T, w *world) {
	o := w.define(t, "Tightened", "names: {plural: tightened}\n"+oneVersion("spec: {type: object, properties: {name: {type: string}, even: {type: integer}, other: {type: integer}}}"))
	o.create(t, "a", "spec: {name: LOUD, even: 3}")
	w.change(t, "tightened", func(definition *apiextensionsv1.CustomResourceDefinition) {
		spec := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["name"] = apiextensionsv1.JSONSchemaProps{Type: "string", Pattern: "^[a-z]+$"}
		spec.Properties["even"] = apiextensionsv1.JSONSchemaProps{Type: "integer", XValidations: apiextensionsv1.ValidationRules{{Rule: "self % 2 == 0", Message: "it has to be even"}}}
	})
	framework.Eventually(t, patience, func() error {
		_, err := o.Create(t.Context(), o.object(t, "b", "spec: {name: LOUD}"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsInvalid(err) {
			return errNotYet("the tighter schema", err)
		}
		return nil
	})
	if _, err := o.merge(t.Context(), "a", `{"spec":{"other":1}}`); err != nil {
		t.Errorf("changing something else: %v", err)
	}
	_, err := o.merge(t.Context(), "a", `{"spec":{"name":"LOUDER"}}`)
	wantInvalid(t, err, "spec.name in body should match")
	_, err = o.merge(t.Context(), "a", `{"spec":{"even":5}}`)
	wantInvalid(t, err, "it has to be even")
	if _, err := o.merge(t.Context(), "a", `{"spec":{"name":"calm","even":4}}`); err != nil {
		t.Error(err)
	}
}

// testDefaulting adds defaults to a kind that has objects.
func testDefaulting(t *testing.T, w *world) {
	o := w.define(t, "Defaulted", "names: {plural: defaulted}\n"+oneVersion(`
spec:
  type: object
  properties:
    size: {type: integer}
    nothing: {type: string, nullable: true}
    plain: {type: string}`))
	o.create(t, "before", "spec: {}")
	w.change(t, "defaulted", func(definition *apiextensionsv1.CustomResourceDefinition) {
		spec := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		for property, value := range map[string]string{"size": "7", "nothing": `"something"`, "plain": `"plain"`} {
			changed := spec.Properties[property]
			changed.Default = &apiextensionsv1.JSON{Raw: []byte(value)}
			spec.Properties[property] = changed
		}
	})
	defaulted := map[string]any{"size": int64(7), "nothing": "something", "plain": "plain"}
	framework.Eventually(t, patience, func() error {
		read, err := o.Get(t.Context(), "before", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if diff := cmp.Diff(map[string]any{"spec": defaulted}, content(read)); diff != "" {
			return errNotYet("what was stored before there were defaults (-want,+got):\n"+diff, nil)
		}
		return nil
	})
	for name, tc := range map[string]struct {
		spec string
		want map[string]any
	}{
		"nothing-said": {spec: "{}", want: defaulted},
		"said":         {spec: "{size: 1}", want: map[string]any{"size": int64(1), "nothing": "something", "plain": "plain"}},
		"null":         {spec: "{nothing: null}", want: map[string]any{"size": int64(7), "nothing": nil, "plain": "plain"}},
		// What may not be null is as if it were not there.
		"null-not-allowed": {spec: "{plain: null, size: null}", want: defaulted},
	} {
		if diff := cmp.Diff(map[string]any{"spec": tc.want}, content(o.create(t, name, "spec: "+tc.spec))); diff != "" {
			t.Errorf("%s (-want,+got):\n%s", name, diff)
		}
	}
	// A default is applied again when a value is taken away.
	changed, err := o.merge(t.Context(), "said", `{"spec":{"size":null}}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"spec": defaulted}, content(changed)); diff != "" {
		t.Errorf("without what was said (-want,+got):\n%s", diff)
	}
}

// testFieldValidation says what becomes of unknown and doubled fields.
func testFieldValidation(t *testing.T, w *world) {
	o := w.define(t, "Strict", "names: {plural: stricts}\n"+oneVersion("spec: {type: object, properties: {size: {type: integer}}}"))
	warnings := &heard{}
	config := rest.CopyConfig(w.Config)
	config.WarningHandler = warnings
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	listening := objects{client.Resource(o.resource("stricts")).Namespace("default"), o.kind, o.version}
	unknown := func(name string) error {
		_, err := listening.Create(t.Context(), o.object(t, name, "spec: {size: 1, sice: 2}"), metav1.CreateOptions{FieldValidation: map[string]string{
			"strict": metav1.FieldValidationStrict, "warn": metav1.FieldValidationWarn, "ignore": metav1.FieldValidationIgnore,
		}[name]})
		return err
	}
	if err := unknown("strict"); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "spec.sice"`) {
		t.Errorf("strict: got %v, want 400", err)
	}
	for _, name := range []string{"warn", "ignore"} {
		if err := unknown(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff([]string{`unknown field "spec.sice"`}, warnings.all()); diff != "" {
		t.Errorf("warnings (-want,+got):\n%s", diff)
	}
	body := `{"apiVersion":"` + group + `/v1","kind":"Strict","metadata":{"name":"twice"},"spec":{"size":1,"size":2}}`
	err = w.APIExtensions.ApiextensionsV1().RESTClient().Post().AbsPath("/apis/"+group+"/v1/namespaces/default/stricts").Param("fieldValidation", "Strict").
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body([]byte(body)).Do(t.Context()).Error()
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `duplicate field "spec.size"`) {
		t.Errorf("a field twice: got %v, want 400", err)
	}
}

// heard collects warnings.
type heard struct {
	mu       sync.Mutex
	warnings []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings = append(h.warnings, text)
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.warnings)
}
