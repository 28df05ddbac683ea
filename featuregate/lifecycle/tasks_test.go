// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/apis/gatedfield"
)

// TestClearFieldGoesThroughAllFields has a server that drops the color of whatever is written. That a real one does is tested with
// the server's own gates.
func TestClearFieldGoesThroughAllFields(t *testing.T) {
	t.Parallel()
	kinds := map[string]schema.GroupVersionResource{
		"Jar": {Group: "example.com", Version: "v1", Resource: "jars"},
		"Lid": {Group: "example.com", Version: "v1", Resource: "lids"},
	}
	listKinds, objects, fields := map[schema.GroupVersionResource]string{}, []runtime.Object{}, []Gated{}
	for kind, resource := range kinds {
		listKinds[resource] = kind + "List"
		for i := range 4 {
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": kind, "metadata": map[string]any{"name": fmt.Sprint("o", i), "namespace": "ns"}, "spec": map[string]any{"size": int64(i)},
			}}
			if i%2 == 0 {
				_ = unstructured.SetNestedField(object.Object, "red", "spec", "color")
			}
			objects = append(objects, object)
		}
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds, objects...)
	written := 0
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		stored, err := client.Tracker().Get(patch.GetResource(), patch.GetNamespace(), patch.GetName())
		if err != nil {
			return true, nil, err
		}
		object := stored.(*unstructured.Unstructured).DeepCopy()
		unstructured.RemoveNestedField(object.Object, "spec", "color")
		written++
		return true, object, client.Tracker().Update(patch.GetResource(), object, patch.GetNamespace())
	})
	for kind, resource := range kinds {
		fields = append(fields, Gated{
			Field:  gatedfield.Field{Kind: resource.GroupVersion().WithKind(kind), Path: []string{"spec", "color"}},
			Client: client.Resource(resource),
		})
	}
	task := ClearField(nil, fields...)
	if task.Name != "ClearField" || !task.DataChanging {
		t.Errorf("task %s, changes data: %v", task.Name, task.DataChanging)
	}
	var said taskReport
	progress := &Progress{clock: clock.RealClock{}, report: func(change func(*taskReport)) { change(&said) }}
	if err := task.Run(t.Context(), progress); err != nil {
		t.Fatal(err)
	}
	if said.done != 8 || said.message != "cleared 4 objects of 8 that were read" || written != 4 {
		t.Errorf("wrote %d, and said: done %d, %s", written, said.done, said.message)
	}
	if said.total != nil {
		t.Errorf("the server did not say how many objects are left, and the total is %d", *said.total)
	}
	if err := task.Run(t.Context(), progress); err != nil || written != 4 {
		t.Errorf("again: %v, %d written in all, want none more", err, written)
	}
}

func TestCountNamesTenOfMany(t *testing.T) {
	t.Parallel()
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "jars"}
	var objects []runtime.Object
	for i := range 25 {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Jar", "metadata": map[string]any{"name": fmt.Sprintf("o%02d", i), "namespace": "ns"},
		}})
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "JarList"}, objects...)
	count := CountObjects(Kind{Resource: resource.GroupResource(), Client: client.Resource(resource), Uses: func(o *unstructured.Unstructured) bool { return o.GetName() != "o03" }})
	got, err := count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Count != 24 || len(got.Examples) != 10 {
		t.Errorf("counted %d with %d examples, want 24 with 10", got.Count, len(got.Examples))
	}
	if diff := cmp.Diff("jars ns/o00, jars ns/o01, jars ns/o02, jars ns/o04, jars ns/o05, jars ns/o06, jars ns/o07, jars ns/o08, jars ns/o09, jars ns/o10 and 14 more", describeReferences(got)); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestPauseEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	progress := &Progress{clock: clock.RealClock{}}
	if err := progress.Wait(ctx, time.Hour); err == nil {
		t.Error("no error")
	}
}

func TestDoneOfTotal(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		done, total, wantDone int64
		want                  *int64
	}{
		"part":               {3, 10, 3, ptr.To[int64](10)},
		"of nothing":         {0, 0, 0, ptr.To[int64](0)},
		"more than there is": {11, 10, 11, ptr.To[int64](11)},
		"of what is unknown": {3, -1, 3, nil},
		"less than nothing":  {-1, 10, 0, ptr.To[int64](10)},
	} {
		got := taskReport{total: ptr.To[int64](99)}
		(&Progress{report: func(change func(*taskReport)) { change(&got) }}).Done(tc.done, tc.total)
		if got.done != tc.wantDone || !ptr.Equal(got.total, tc.want) {
			t.Errorf("%s: %d of %v", name, got.done, got.total)
		}
	}
}

func TestWaitForRemovalEndsWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	var said taskReport
	progress := &Progress{clock: clock.RealClock{}, report: func(change func(*taskReport)) { change(&said) }}
	left, counts := int64(2), 0
	task := WaitForRemoval(func(context.Context) (v1alpha1.DanglingReferences, error) {
		counts++
		left--
		return v1alpha1.DanglingReferences{Count: left}, nil
	}, time.Nanosecond)
	if err := task.Run(t.Context(), progress); err != nil || counts != 2 || said.dangling.Count != 0 {
		t.Errorf("it ended with %v after %d counts, dangling %v", err, counts, said.dangling)
	}
	away := errors.New("away")
	fails := func(context.Context) (v1alpha1.DanglingReferences, error) { return v1alpha1.DanglingReferences{}, away }
	if err := WaitForRemoval(fails, time.Nanosecond).Run(t.Context(), progress); !errors.Is(err, away) {
		t.Errorf("a count that failed ended it with %v", err)
	}
	if err := (&Feature{Count: fails}).count(t.Context(), progress); !errors.Is(err, away) {
		t.Errorf("a count that failed ended CountReferences with %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := WaitForRemoval(func(context.Context) (v1alpha1.DanglingReferences, error) {
		return v1alpha1.DanglingReferences{Count: 1}, nil
	}, time.Hour).Run(ctx, progress); !errors.Is(err, context.Canceled) {
		t.Errorf("with something left, the end of its context ended it with %v", err)
	}
}
