// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-annex/annex/apis/gatedfield"
	"github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator/testdata/example/hub"
	"github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator/testdata/example/v1beta1"
)

// Every field of the example, everywhere where it can be. The names are those of the hub's Go fields too, but for their case.
const (
	crate  = `{"content": [{"name": "a"}, {"name": "b", "material": "x", "bolts": [{}, {"alloy": "x"}]}]}`
	gadget = `{
		"spec": {
			"sides": [1], "color": "x", "size": 1, "tags": {"t": "x"},
			"parts": [{"name": "a", "material": "x"}, {"name": "b"}, {"name": "c", "material": "x", "bolts": [{"alloy": "x"}]}],
			"pointers": [null, {"name": "a", "material": "x", "bolts": [{"alloy": "x"}]}],
			"spare": {"name": "a", "material": "x", "bolts": [{"alloy": "x"}]},
			"grid": {"g": [], "h": [{"name": "a"}, {"name": "b", "material": "x", "bolts": [{"alloy": "x"}]}]},
			"zones": {"y": {"size": 1, "note": "x"}, "z": {"size": 2, "note": "x"}},
			"remote": {"y": null, "z": {"size": 1, "note": "x"}},
			"nested": {"y": {"size": 1, "note": "x"}, "z": {"size": 2}},
			"root": {
				"color": "x",
				"left": {"left": {"color": "x"}},
				"children": [{}, {"color": "x", "children": [{"color": "x"}]}],
				"named": {"n": {"color": "x"}, "color": {"named": {"color": {"color": "x"}}}},
				"branch": {"tree": {"color": "x"}, "inner": [{"inner": [{"tree": {"branch": {"tree": {"color": "x"}}}}]}]}
			},
			"fastener": {"thread": "x"}
		},
		"status": {"summary": "x"}
	}`
)

func TestAccessors(t *testing.T) {
	t.Parallel()
	// want is what clearing takes out, of both types; what lies in a field that is cleared goes with it.
	want := map[string][]string{
		"Crate content [] material":              {"content [] material"},
		"Crate content [] bolts":                 {"content [] bolts [] alloy"},
		"Crate content [] bolts [] alloy":        {"content [] bolts [] alloy"},
		"Gadget spec sides":                      {"spec sides []"},
		"Gadget spec color":                      {"spec color"},
		"Gadget spec tags":                       {"spec tags t"},
		"Gadget spec parts [] material":          {"spec parts [] material", "spec parts [] material"},
		"Gadget spec parts [] bolts":             {"spec parts [] bolts [] alloy"},
		"Gadget spec pointers [] material":       {"spec pointers [] material"},
		"Gadget spec pointers [] bolts":          {"spec pointers [] bolts [] alloy"},
		"Gadget spec spare material":             {"spec spare material"},
		"Gadget spec spare bolts":                {"spec spare bolts [] alloy"},
		"Gadget spec grid {} [] material":        {"spec grid h [] material"},
		"Gadget spec grid {} [] bolts":           {"spec grid h [] bolts [] alloy"},
		"Gadget spec zones {} note":              {"spec zones y note", "spec zones z note"},
		"Gadget spec remote {} note":             {"spec remote z note"},
		"Gadget spec nested {} note":             {"spec nested y note"},
		"Gadget spec fastener thread":            {"spec fastener thread"},
		"Gadget status summary":                  {"status summary"},
		"Gadget spec parts [] bolts [] alloy":    {"spec parts [] bolts [] alloy"},
		"Gadget spec pointers [] bolts [] alloy": {"spec pointers [] bolts [] alloy"},
		"Gadget spec spare bolts [] alloy":       {"spec spare bolts [] alloy"},
		"Gadget spec grid {} [] bolts [] alloy":  {"spec grid h [] bolts [] alloy"},
		"Gadget spec root color": {
			"spec root branch inner [] inner [] tree branch tree color",
			"spec root branch tree color",
			"spec root children [] children [] color",
			"spec root children [] color",
			"spec root color",
			"spec root left left color",
			"spec root named color named color color",
			"spec root named n color",
		},
	}
	table := map[string]gatedfield.Field{}
	for _, f := range v1beta1.GatedFields() {
		table[f.Kind.Kind+" "+strings.Join(f.Path, " ")] = f
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(table))); diff != "" {
		t.Fatalf("fields of the table (-want,+got):\n%s", diff)
	}
	for name, f := range table {
		for version, empty := range map[string]func() runtime.Object{"served": served(f.Kind.Kind), "hub": hubs(f.Kind.Kind)} {
			t.Run(name+"/"+version, func(t *testing.T) {
				t.Parallel()
				text := map[string]string{"Crate": crate, "Gadget": gadget}[f.Kind.Kind]
				obj := empty()
				if f.IsSet(obj) {
					t.Error("the field is set in an empty object")
				}
				f.Clear(obj)
				if diff := cmp.Diff(textOf(t, empty()), textOf(t, obj)); diff != "" {
					t.Errorf("clearing changed an empty object (-want,+got):\n%s", diff)
				}
				if err := json.Unmarshal([]byte(text), obj); err != nil {
					t.Fatal(err)
				}
				before := leaves(t, obj)
				if !f.IsSet(obj) {
					t.Error("the field is not set in the full object")
				}
				if diff := cmp.Diff(before, leaves(t, obj)); diff != "" {
					t.Errorf("asking changed the object (-want,+got):\n%s", diff)
				}
				f.Clear(obj)
				if f.IsSet(obj) {
					t.Error("the field is set after clearing")
				}
				if diff := cmp.Diff(want[name], missing(before, leaves(t, obj))); diff != "" {
					t.Errorf("cleared (-want,+got):\n%s", diff)
				}
				for _, path := range before {
					gone := slices.Contains(want[name], path)
					if got := f.Covers(strings.Fields(path)); got != gone {
						t.Errorf("the field covers %s: got %v, want %v", path, got, gone)
					}
				}
			})
		}
	}
}

// TestRaceFreeReads would fail under the race detector if asking wrote values of maps back.
func TestRaceFreeReads(t *testing.T) {
	t.Parallel()
	obj := &v1beta1.Gadget{}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(gadget, `"note": "x"`, `"size": 3`)), obj); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for _, f := range v1beta1.GatedFields() {
				f.IsSet(obj)
			}
		})
	}
}

func TestOtherObjectsHaveNoFields(t *testing.T) {
	t.Parallel()
	for _, f := range v1beta1.GatedFields() {
		for _, obj := range []runtime.Object{nil, &runtime.Unknown{}} {
			if f.IsSet(obj) {
				t.Errorf("%s %v is set in a %T", f.Kind.Kind, f.Path, obj)
			}
			f.Clear(obj)
		}
	}
}

// TestTableOfTheExample looks at what the accessors do not show.
func TestTableOfTheExample(t *testing.T) {
	t.Parallel()
	for _, f := range v1beta1.GatedFields() {
		got := []string{f.Kind.GroupVersion().String(), f.Gate, string(f.WhenOff), f.Model, f.Property}
		var want []string
		switch strings.Join(f.Path, " ") {
		case "spec sides":
			want = []string{"gadgets.example.com/v1beta1", "GadgetBolts", "Reject", "com.example.gadgets.v1beta1.GadgetSpec", "sides"}
		case "spec tags":
			want = []string{"gadgets.example.com/v1beta1", "GadgetMaterial", "Drop", "com.example.gadgets.v1beta1.GadgetSpec", "tags"}
		case "spec parts [] bolts [] alloy":
			want = []string{"gadgets.example.com/v1beta1", "GadgetMaterial", "Drop", "com.example.gadgets.v1beta1.Bolt", "alloy"}
		case "spec fastener thread":
			want = []string{"gadgets.example.com/v1beta1", "GadgetBolts", "Drop", "com.example.shared.Fastener", "thread"}
		default:
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want,+got):\n%s", f.Path, diff)
		}
	}
}

func served(kind string) func() runtime.Object {
	return map[string]func() runtime.Object{
		"Crate":  func() runtime.Object { return &v1beta1.Crate{} },
		"Gadget": func() runtime.Object { return &v1beta1.Gadget{} },
	}[kind]
}

func hubs(kind string) func() runtime.Object {
	return map[string]func() runtime.Object{
		"Crate":  func() runtime.Object { return &hub.Crate{} },
		"Gadget": func() runtime.Object { return &hub.Gadget{} },
	}[kind]
}

func textOf(t *testing.T, obj runtime.Object) string {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// leaves returns the paths to all values of an object that are not empty, in lower case and sorted.
func leaves(t *testing.T, obj runtime.Object) []string {
	t.Helper()
	var root any
	if err := json.Unmarshal([]byte(textOf(t, obj)), &root); err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, inner := range value {
				walk(strings.TrimSpace(path+" "+strings.ToLower(key)), inner)
			}
		case []any:
			for _, inner := range value {
				walk(path+" []", inner)
			}
		case string:
			if value != "" {
				out = append(out, path)
			}
		case float64:
			if value != 0 {
				out = append(out, path)
			}
		}
	}
	walk("", root)
	slices.Sort(out)
	return out
}

// missing returns what is in the one and no longer in the other; paths may occur several times.
func missing(before, after []string) []string {
	count := map[string]int{}
	for _, path := range after {
		count[path]++
	}
	var out []string
	for _, path := range before {
		if count[path]--; count[path] < 0 {
			out = append(out, path)
		}
	}
	return out
}
