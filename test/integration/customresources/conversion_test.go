// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/test/framework"
)

// twoVersions has v1 with spec.size, which is stored, and v2 with spec.dimensions.size.
const twoVersions = `
versions:
- name: v1
  served: true
  storage: true
  schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
- name: v2
  served: true
  storage: false
  schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {dimensions: {type: object, properties: {size: {type: integer}}}}}}}}`

// testConversion has a webhook convert, and fail at it in each way. Then the storage version changes.
func testConversion(t *testing.T, w *world) {
	definition := parse(t, "Converted", "names: {plural: converted}\n"+twoVersions)
	definition.Spec.Conversion = w.webhook.by("/good")
	v1 := w.create(t, definition)
	v2 := w.objects("converted", "Converted", "v2")
	inV1, inV2 := map[string]any{"spec": map[string]any{"size": int64(1)}}, map[string]any{"spec": map[string]any{"dimensions": map[string]any{"size": int64(1)}}}

	v1.create(t, "one", "spec: {size: 1}")
	v2.create(t, "two", "spec: {dimensions: {size: 1}}")
	wantBoth := func() {
		t.Helper()
		for _, name := range []string{"one", "two"} {
			for version, want := range map[objects]map[string]any{v1: inV1, v2: inV2} {
				read, err := version.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Error(err)
				} else if diff := cmp.Diff(want, content(read)); diff != "" {
					t.Errorf("%s in %s (-want,+got):\n%s", name, version.version, diff)
				}
			}
		}
		for version, want := range map[objects]map[string]any{v1: inV1, v2: inV2} {
			list, err := version.List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 2 {
				t.Errorf("listing in %s: %v, %d objects, want 2", version.version, err, len(list.Items))
				continue
			}
			for i := range list.Items {
				if diff := cmp.Diff(want, content(&list.Items[i])); diff != "" || list.Items[i].GetAPIVersion() != group+"/"+version.version {
					t.Errorf("listed as %s (-want,+got):\n%s", list.Items[i].GetAPIVersion(), diff)
				}
			}
		}
	}
	wantBoth()
	watch, err := v2.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for range 2 {
		event, ok := <-watch.ResultChan()
		if !ok {
			t.Fatal("the watch has ended")
		}
		if diff := cmp.Diff(inV2, content(event.Object.(*unstructured.Unstructured))); diff != "" {
			t.Errorf("watched (-want,+got):\n%s", diff)
		}
	}

	for path, says := range map[string]string{
		"/refuses":      "this one is not to be converted",
		"/does-nothing": "invalid groupVersion (expected test.example.com/v2, received test.example.com/v1)",
		"/renames":      "must have the same name",
		"/unknown":      "no such way to convert",
	} {
		w.change(t, "converted", func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Conversion = w.webhook.by(path) })
		w.wantFailing(t, v2, says)
		// What needs no conversion goes on.
		if read, err := v1.Get(t.Context(), "one", metav1.GetOptions{}); err != nil || cmp.Diff(inV1, content(read)) != "" {
			t.Errorf("in the stored version, while the webhook %s: %v", strings.TrimPrefix(path, "/"), err)
		}
	}
	w.change(t, "converted", func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Conversion = w.webhook.by("/good")
		d.Spec.Conversion.Webhook.ClientConfig.CABundle = w.otherAuthority(t)
	})
	w.wantFailing(t, v2, "certificate")
	w.change(t, "converted", func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Conversion = w.webhook.by("/good") })
	framework.Eventually(t, patience, func() error {
		_, err := v2.Get(t.Context(), "one", metav1.GetOptions{})
		return err
	})
	wantBoth()
	w.changeStorageVersion(t, v2)
}

// wantFailing waits until what has to be converted fails with an error that says why.
func (w *world) wantFailing(t *testing.T, in objects, says string) {
	t.Helper()
	client := w.APIExtensions.ApiextensionsV1().RESTClient()
	framework.Eventually(t, patience, func() error {
		err := client.Get().AbsPath("/apis", group, in.version, "namespaces/default/converted/one").MaxRetries(0).Do(t.Context()).Error()
		if err == nil || !strings.Contains(err.Error(), says) {
			return errNotYet(says, err)
		}
		// The cache of a definition that has just changed cannot be filled either, and says so.
		if !apierrors.IsInternalError(err) && !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "conversion webhook for test.example.com/v1, Kind=Converted") {
			t.Errorf("got %v, want 500 with the kind", err)
		}
		return nil
	})
}

// changeStorageVersion stores objects in v2 from now on, and has those that are there stored anew.
func (w *world) changeStorageVersion(t *testing.T, v2 objects) {
	t.Helper()
	w.change(t, "converted", func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Conversion = w.webhook.by("/refuses") })
	framework.Eventually(t, patience, func() error {
		if _, err := v2.Get(t.Context(), "one", metav1.GetOptions{}); err == nil {
			return errNotYet("a refusal", nil)
		}
		return nil
	})
	// What is created in the version in which it is stored needs no conversion: that it succeeds shows that the change is in effect.
	w.change(t, "converted", func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions[0].Storage, d.Spec.Versions[1].Storage = false, true
	})
	framework.Eventually(t, patience, func() error {
		_, err := v2.Create(t.Context(), v2.object(t, "three", "spec: {dimensions: {size: 1}}"), metav1.CreateOptions{})
		return err
	})
	w.change(t, "converted", func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Conversion = w.webhook.by("/good") })
	framework.Eventually(t, patience, func() error {
		_, err := v2.Get(t.Context(), "one", metav1.GetOptions{})
		return err
	})
	stored := func() []string {
		t.Helper()
		definition, err := w.definitions().Get(t.Context(), "converted."+group, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return definition.Status.StoredVersions
	}
	framework.Eventually(t, patience, func() error {
		if diff := cmp.Diff([]string{"v1", "v2"}, stored()); diff != "" {
			return errNotYet("the other storage version (-want,+got):\n"+diff, nil)
		}
		return nil
	})
	// A version in which objects may be stored cannot go.
	definition, err := w.definitions().Get(t.Context(), "converted."+group, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	definition.Spec.Versions = definition.Spec.Versions[1:]
	_, err = w.definitions().Update(t.Context(), definition, metav1.UpdateOptions{})
	wantInvalid(t, err, "status.storedVersions[0]", "missing from spec.versions")
	for _, name := range []string{"one", "two"} {
		if _, err := v2.merge(context.WithoutCancel(t.Context()), name, `{"metadata":{"labels":{"stored":"anew"}}}`); err != nil {
			t.Error(err)
		}
	}
	// Package test/integration/controlplane tests the kind that does this for all objects of a kind.
	status := `{"status":{"storedVersions":["v2"]}}`
	if _, err := w.definitions().Patch(t.Context(), definition.Name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	w.change(t, "converted", func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Served = false })
	framework.Eventually(t, patience, func() error {
		if _, err := w.objects("converted", "Converted", "v1").Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errNotYet("that v1 is not served", err)
		}
		return nil
	})
	w.change(t, "converted", func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions, d.Spec.Conversion = d.Spec.Versions[1:], &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	})
	// Nothing of what is stored is in v1 anymore, so nothing has to be converted.
	framework.Eventually(t, patience, func() error {
		list, err := v2.List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) != 3 {
			err = fmt.Errorf("there are %d objects", len(list.Items))
		}
		return err
	})
}

// otherAuthority is one that has not signed the webhook's certificate.
func (w *world) otherAuthority(t *testing.T) []byte {
	t.Helper()
	return w.Config.CAData
}
