// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gatedfields_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

// touches are writes that say nothing against a field that is there.
var touches = map[string]func(ctx context.Context, t *testing.T, c client, r row, current *unstructured.Unstructured) (*unstructured.Unstructured, error){
	"put of the same": func(ctx context.Context, _ *testing.T, c client, r row, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return c.Update(ctx, current.DeepCopy(), metav1.UpdateOptions{FieldManager: secondWriter}, r.subresources()...)
	},
	"empty merge patch": func(ctx context.Context, _ *testing.T, c client, r row, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return c.Patch(ctx, current.GetName(), types.MergePatchType, []byte("{}"), patchOptions(secondWriter, false), r.subresources()...)
	},
	"merge patch of something else": func(ctx context.Context, t *testing.T, c client, r row, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return c.Patch(ctx, current.GetName(), types.MergePatchType, encode(t, object{r.part(): r.other()}), patchOptions(secondWriter, false), r.subresources()...)
	},
	"strategic merge patch of something else": func(ctx context.Context, t *testing.T, c client, r row, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return c.Patch(ctx, current.GetName(), types.StrategicMergePatchType, encode(t, object{r.part(): r.other()}), patchOptions(secondWriter, false), r.subresources()...)
	},
	"JSON patch of something else": func(ctx context.Context, t *testing.T, c client, r row, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		var ops []object
		for name, value := range r.other() {
			ops = append(ops, object{"op": "add", "path": "/" + r.part() + "/" + name, "value": value})
		}
		return c.Patch(ctx, current.GetName(), types.JSONPatchType, encode(t, ops), patchOptions(secondWriter, false), r.subresources()...)
	},
	"apply of something else": func(ctx context.Context, t *testing.T, c client, r row, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		body := widget(current.GetName(), nil)
		delete(body.Object, "spec")
		body.Object[r.part()] = r.other()
		options := patchOptions(secondWriter, false)
		force := true
		options.Force = &force
		return c.Patch(ctx, current.GetName(), types.ApplyPatchType, encode(t, body), options, r.subresources()...)
	},
}

// other returns fields of the same part that are not gated.
func (r row) other() object {
	if r.subresource == "" {
		return object{"width": int64(2)}
	}
	return object{"count": int64(2)}
}

// TestExistingUse writes objects that got a field while its feature was on, after the feature has changed.
func TestExistingUse(t *testing.T) {
	t.Parallel()
	for _, state := range []situation{{state: off}, {state: turningOff}, {state: on}} {
		t.Run(string(state.state), func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.Options{})
			setStates(t, s, on)
			type subject struct {
				path, how string
				current   *unstructured.Unstructured
			}
			var subjects []subject
			for path, r := range rows {
				for how := range touches {
					name := fmt.Sprintf("widget-%d", len(subjects))
					subjects = append(subjects, subject{path: path, how: how, current: r.create(t, widgetsOf(t, s), name, r.with)})
				}
			}
			setStates(t, s, state.state)
			for _, subject := range subjects {
				t.Run(subject.path+", "+subject.how, func(t *testing.T) {
					t.Parallel()
					r, c := rows[subject.path], widgetsOf(t, s)
					wantKept := state.state != turningOff || r.rejected
					out, err := touches[subject.how](t.Context(), t, c, r, subject.current)
					if err != nil {
						t.Fatal(err)
					}
					warned := c.taken()
					stored, _ := raw(t, s, subject.current.GetName())
					for what, has := range map[string]bool{
						"the answer": r.has(out), "the stored value": r.value == "41414141" && wantKept || bytes.Contains(stored, []byte(r.value)),
						"its managed fields": strings.Contains(managed(out), r.leaf),
					} {
						if has != wantKept {
							t.Errorf("%s has the field: %t, want %t", what, has, wantKept)
						}
					}
					if dropped := strings.Contains(warned, r.path); dropped == wantKept {
						t.Errorf("the warnings are %q, want one of a drop: %t", warned, !wantKept)
					}
					specChanged := r.subresource == "" && (!wantKept || strings.Contains(subject.how, "something else"))
					if changed := out.GetGeneration() != subject.current.GetGeneration(); changed != specChanged {
						t.Errorf("generation went from %d to %d, want a change: %t", subject.current.GetGeneration(), out.GetGeneration(), specChanged)
					}
				})
			}
		})
	}
}

// TestOtherEndpointsLeaveFieldsAlone writes what an endpoint is about while a field that belongs to another one is on its way out.
func TestOtherEndpointsLeaveFieldsAlone(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Options{})
	setStates(t, s, on)
	c := widgetsOf(t, s)
	rows["spec.color"].create(t, c, "widget", rows["spec.color"].with)
	merge := func(body string, subresources ...string) *unstructured.Unstructured {
		t.Helper()
		out, err := c.Patch(t.Context(), "widget", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	merge(`{"status":{"summary":"reddish","count":1}}`, "status")
	merge(`{"spec":{"parts":[{"name":"a","material":"bakelite"}]}}`)
	setStates(t, s, turningOff)
	c.taken()

	out := merge(`{"spec":{"width":7,"color":"blue"}}`, "size")
	for path, r := range rows {
		if !r.rejected && path != "spec.labelsByZone{}.note" && !r.has(out) {
			t.Errorf("/size cleared %s", path)
		}
	}
	if warned := c.taken(); warned != "" {
		t.Errorf("/size warned: %s", warned)
	}
	out = merge(`{"spec":{"width":8}}`, "paint")
	if rows["spec.color"].has(out) || !rows["spec.parts[].material"].has(out) || !rows["status.summary"].has(out) {
		t.Errorf("/paint should have cleared the colour and nothing else: %v", out.Object)
	}
	out = merge(`{}`)
	if rows["spec.parts[].material"].has(out) || !rows["status.summary"].has(out) {
		t.Errorf("the resource should have cleared spec and left status alone: %v", out.Object)
	}
	out = merge(`{"spec":{"width":9}}`, "status")
	if rows["status.summary"].has(out) {
		t.Errorf("/status should have cleared the summary: %v", out.Object)
	}
	if _, err := c.Patch(t.Context(), "absent", types.MergePatchType, []byte(`{"spec":{"color":"blue"}}`), metav1.PatchOptions{}, "paint"); !apierrors.IsNotFound(err) {
		t.Errorf("painting what is not there: got %v, want NotFound", err)
	}
}

// TestAppliedFieldsThatAreOff takes an object through apply while the feature comes and goes: the rules of apply know the field
// always, whoever may use it.
func TestAppliedFieldsThatAreOff(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Options{})
	setStates(t, s, on)
	c, r := widgetsOf(t, s), rows["spec.parts[].material"]
	applied := func(part object, manager string) *unstructured.Unstructured {
		t.Helper()
		out, err := c.Patch(t.Context(), "widget", types.ApplyPatchType, encode(t, r.body("widget", part)), patchOptions(manager, false))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	applied(r.with, firstWriter)
	setStates(t, s, off)
	if out := applied(object{"width": int64(1), "parts": []any{object{"name": "c"}}}, secondWriter); !r.has(out) {
		t.Errorf("another's apply dropped a field in use: %v", out.Object["spec"])
	}
	if out := applied(r.with, firstWriter); !r.has(out) {
		t.Errorf("applying what is there dropped a field in use: %v", out.Object["spec"])
	}
	if out := applied(r.without, firstWriter); r.has(out) {
		t.Errorf("the owner could not give the field up: %v", out.Object["spec"])
	}
	out := applied(r.with, firstWriter)
	if r.has(out) || strings.Contains(managed(out), r.leaf) {
		t.Errorf("new use while off: %v, owned by\n%s", out.Object["spec"], managed(out))
	}
	setStates(t, s, on)
	if out = applied(r.with, firstWriter); !r.has(out) || !strings.Contains(managed(out), r.leaf) {
		t.Errorf("turned on again: %v, owned by\n%s", out.Object["spec"], managed(out))
	}
}
