// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kube-annex/annex/apis/node/install"
	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/generated/openapi"
	"github.com/kube-annex/annex/registry/node"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

func TestMain(m *testing.M) { resourcetest.Main(m) }

func start(t *testing.T) *resourcetest.Server {
	t.Helper()
	scheme := resource.NewScheme(install.Install)
	return resourcetest.Start(t, resourcetest.Options{
		Scheme:      scheme,
		Codecs:      serializer.NewCodecFactory(scheme),
		Definitions: openapi.GetOpenAPIDefinitions,
		Version:     v1alpha1.SchemeGroupVersion,
		Install:     node.Install,
	})
}

var nodeBalloons = v1alpha1.SchemeGroupVersion.WithResource("nodeballoons")

func TestNodeBalloon(t *testing.T) {
	t.Parallel()
	resourcetest.Run(t, start(t), resourcetest.Case{
		Resource:       nodeBalloons,
		Kind:           "NodeBalloon",
		Names:          []string{"node-a", "node-b", "node-c.example.com"},
		Spec:           map[string]any{"nodeSize": map[string]any{"cpu": "6", "memory": "24Gi"}},
		ChangedSpec:    map[string]any{"balloonSize": map[string]any{"cpu": "2"}},
		Status:         map[string]any{"observedGeneration": int64(1), "podName": "balloon-x", "effective": map[string]any{"cpu": "6"}},
		InvalidSpec:    map[string]any{"nodeSize": map[string]any{"cpu": "6"}, "balloonSize": map[string]any{"cpu": "6"}},
		InvalidMessage: "spec",
		Columns:        []string{"Name", "Size-CPU", "Size-Memory", "Balloon-CPU", "Balloon-Memory", "Status", "Age"},
		ShortNames:     []string{"nb"},
	})
}

// resizes are the ways to write through /resize. Each tries to change far more than the size.
var resizes = map[string]func(ctx context.Context, client dynamic.ResourceInterface, current *unstructured.Unstructured) (*unstructured.Unstructured, error){
	"PUT": func(ctx context.Context, client dynamic.ResourceInterface, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		body := current.DeepCopy()
		body.SetLabels(map[string]string{"from": "resize"})
		body.SetFinalizers([]string{"annex.test/resize"})
		body.Object["spec"] = map[string]any{"balloonSize": map[string]any{"cpu": "3"}, "reclaimDeadlineSeconds": int64(5)}
		body.Object["status"] = map[string]any{"podName": "stolen"}
		return client.Update(ctx, body, metav1.UpdateOptions{}, "resize")
	},
	"merge patch": func(ctx context.Context, client dynamic.ResourceInterface, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return client.Patch(ctx, current.GetName(), types.MergePatchType, []byte(`{
			"metadata": {"labels": {"from": "resize"}},
			"spec": {"nodeSize": null, "balloonSize": {"cpu": "3"}, "reclaimDeadlineSeconds": 5},
			"status": {"podName": "stolen"}}`), metav1.PatchOptions{}, "resize")
	},
	"apply": func(ctx context.Context, client dynamic.ResourceInterface, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		// Another manager put nodeSize there, so it has to go first.
		if _, err := client.Patch(ctx, current.GetName(), types.MergePatchType, []byte(`{"spec":{"nodeSize":null,"balloonSize":{"cpu":"1"}}}`), metav1.PatchOptions{}); err != nil {
			return nil, err
		}
		return client.Apply(ctx, current.GetName(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "NodeBalloon",
			"metadata": map[string]any{"name": current.GetName(), "labels": map[string]any{"from": "resize"}},
			"spec":     map[string]any{"balloonSize": map[string]any{"cpu": "3"}, "reclaimDeadlineSeconds": int64(5)},
		}}, metav1.ApplyOptions{FieldManager: "autoscaler", Force: true}, "resize")
	},
}

func TestResizeChangesTheSizeAlone(t *testing.T) {
	t.Parallel()
	for name, resize := range resizes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := balloons(t, start(t))
			created := create(t, client, "node-a")
			out, err := resize(t.Context(), client, created)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"balloonSize": map[string]any{"cpu": "3"}, "reclaimDeadlineSeconds": int64(90)}
			if diff := cmp.Diff(want, out.Object["spec"]); diff != "" {
				t.Errorf("spec (-want,+got):\n%s", diff)
			}
			if len(out.GetLabels()) > 0 || len(out.GetFinalizers()) > 0 {
				t.Errorf("/resize wrote metadata: labels %v, finalizers %v", out.GetLabels(), out.GetFinalizers())
			}
			if pod, _, _ := unstructured.NestedString(out.Object, "status", "podName"); pod != "" {
				t.Errorf("/resize wrote status: podName %q", pod)
			}
			if out.GetGeneration() <= created.GetGeneration() {
				t.Errorf("generation stayed at %d", out.GetGeneration())
			}
			for _, entry := range out.GetManagedFields() {
				if fields := entry.FieldsV1.GetRawString(); entry.Subresource == "resize" && (strings.Contains(fields, "f:metadata") || strings.Contains(fields, "f:reclaimDeadlineSeconds") || strings.Contains(fields, "f:status")) {
					t.Errorf("%s owns more than sizes through /resize: %s", entry.Manager, fields)
				}
			}
		})
	}
}

func TestResizeRaces(t *testing.T) {
	t.Parallel()
	client := balloons(t, start(t))
	created := create(t, client, "node-a")
	size := func(cpu string) *unstructured.Unstructured {
		body := created.DeepCopy()
		body.Object["spec"] = map[string]any{"balloonSize": map[string]any{"cpu": cpu}}
		return body
	}
	if _, err := client.Update(t.Context(), size("1"), metav1.UpdateOptions{}, "resize"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Update(t.Context(), size("2"), metav1.UpdateOptions{}, "resize"); !apierrors.IsConflict(err) {
		t.Errorf("the second PUT: got %v, want Conflict", err)
	}
	stale := `{"metadata":{"resourceVersion":"` + created.GetResourceVersion() + `"},"spec":{"balloonSize":{"cpu":"2"}}}`
	if _, err := client.Patch(t.Context(), "node-a", types.MergePatchType, []byte(stale), metav1.PatchOptions{}, "resize"); !apierrors.IsConflict(err) {
		t.Errorf("a patch with the old resourceVersion: got %v, want Conflict", err)
	}
	unversioned := size("2")
	unversioned.SetResourceVersion("")
	if _, err := client.Update(t.Context(), unversioned, metav1.UpdateOptions{}, "resize"); !apierrors.IsInvalid(err) {
		t.Errorf("a PUT without resourceVersion: got %v, want 422", err)
	}
}

func TestResizeMeansTheObjectOfItsUID(t *testing.T) {
	t.Parallel()
	client := balloons(t, start(t))
	created := create(t, client, "node-a")
	patch := func(uid types.UID, subresource string, body string) error {
		_, err := client.Patch(t.Context(), "node-a", types.MergePatchType, []byte(`{"metadata":{"uid":"`+string(uid)+`"},`+body+`}`), metav1.PatchOptions{}, subresource)
		return err
	}
	const resized, observed = `"spec":{"nodeSize":{"cpu":"2"}}`, `"status":{"podName":"balloon-x"}`
	const other = "00000000-0000-0000-0000-000000000000"
	for subresource, body := range map[string]string{"resize": resized, "status": observed} {
		if err := patch(other, subresource, body); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.uid") {
			t.Errorf("patching /%s of a balloon that was replaced: got %v, want 422 at metadata.uid", subresource, err)
		}
		if err := patch(created.GetUID(), subresource, body); err != nil {
			t.Errorf("patching /%s of this balloon: %v", subresource, err)
		}
	}
}

func TestResizeValidates(t *testing.T) {
	t.Parallel()
	client := balloons(t, start(t))
	create(t, client, "node-a")
	for name, body := range map[string]string{
		"both sizes":        `{"spec":{"balloonSize":{"cpu":"2"}}}`,
		"no size":           `{"spec":{"nodeSize":null}}`,
		"another resource":  `{"spec":{"nodeSize":{"pods":"2"}}}`,
		"negative":          `{"spec":{"nodeSize":{"cpu":"-1"}}}`,
		"a fraction a byte": `{"spec":{"nodeSize":{"memory":"1500m"}}}`,
	} {
		if _, err := client.Patch(t.Context(), "node-a", types.MergePatchType, []byte(body), metav1.PatchOptions{}, "resize"); !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v, want 422", name, err)
		}
	}
	if _, err := client.Patch(t.Context(), "absent", types.MergePatchType, []byte(`{"spec":{"nodeSize":{"cpu":"1"}}}`), metav1.PatchOptions{}, "resize"); !apierrors.IsNotFound(err) {
		t.Errorf("resizing what does not exist: got %v, want NotFound", err)
	}
}

func balloons(t *testing.T, server *resourcetest.Server) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(nodeBalloons)
}

func create(t *testing.T, client dynamic.ResourceInterface, name string) *unstructured.Unstructured {
	t.Helper()
	out, err := client.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "NodeBalloon",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"nodeSize": map[string]any{"cpu": "6"}, "reclaimDeadlineSeconds": int64(90)},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
