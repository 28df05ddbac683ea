// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	header      = "../../../../hack/boilerplate.go.txt"
	exampleTree = "github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator/testdata/example"
	regenerate  = "go run ./cmd/gatedfield-gen --go-header-file hack/boilerplate.go.txt --gates-package " + exampleTree + "/gates " +
		exampleTree + "/v1beta1 " + exampleTree + "/shared"
)

// TestTheExampleIsWhatIsGenerated compares with a file that TestAccessors compiles and runs.
func TestTheExampleIsWhatIsGenerated(t *testing.T) {
	t.Parallel()
	options := NewOptions()
	options.HeaderFile, options.GatesPackage = header, exampleTree+"/gates"
	for name, patterns := range map[string][]string{
		"one order":       {exampleTree + "/v1beta1", exampleTree + "/shared"},
		"the other order": {exampleTree + "/shared", exampleTree + "/v1beta1"},
		"with the hub":    {exampleTree + "/gates", exampleTree + "/hub", exampleTree + "/shared", exampleTree + "/v1beta1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, err := options.generate(patterns)
			if err != nil {
				t.Fatal(err)
			}
			written := map[string]string{}
			for name, content := range files {
				if content != nil {
					written[fromHere(name)] = string(content)
				}
			}
			const table = "testdata/example/v1beta1/zz_generated.gatedfields.go"
			if diff := cmp.Diff([]string{table}, slices.Sorted(maps.Keys(written))); diff != "" {
				t.Fatalf("files (-want,+got):\n%s", diff)
			}
			want, err := os.ReadFile(table)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), written[table]); diff != "" {
				t.Errorf("the table differs; if it is right, write it with\n%s\n(-want,+got):\n%s", regenerate, diff)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	const (
		mistakesTree = "github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator/testdata/mistakes"
		hub          = mistakesTree + "/hub"
		known        = "; package " + exampleTree + "/gates has GadgetBolts, GadgetColor, GadgetMaterial: add a constant there, or correct the name"
		noKind       = " is in no kind that the generator is run on (a kind has TypeMeta, ObjectMeta and DeepCopyObject, in a package named like v1alpha1); " +
			"remove the marker, or name the kind's package too"
		forms   = "; the forms are +featureGate=Name and +featureGate=Name,whenOff=Reject"
		present = ", which cannot be absent; make it a pointer, a slice or a map"
		apart   = "+featureGate=GadgetColor gates nothing: it belongs to no field of a named struct; put it into the comment right above the field, with no empty line between"
	)
	for name, tc := range map[string]struct {
		gates, pattern string
		want           []string
	}{
		"everything": {
			gates: exampleTree + "/gates", pattern: mistakesTree + "/v1alpha1",
			want: []string{
				"hub/types.go:31: field Color is one of the hub's, where a marker gates nothing; put it at the served field, in package " + mistakesTree + "/v1alpha1",
				"outside/outside.go:9: field Color of Type, which Kind contains, is gated by GadgetColor, and the generator is not run on package " + mistakesTree + "/outside; name that package too",
				"v1alpha1/fields.go:8: gated field Required is not optional; add the marker +optional",
				"v1alpha1/fields.go:10: gated field AlwaysWritten is written when it is empty; add omitempty to its json tag",
				`v1alpha1/fields.go:13: gated field NoTag has no name in JSON (its tag is missing); add a tag such as json:"name,omitempty"`,
				"v1alpha1/fields.go:16: field NotInJSON of Fields" + noKind,
				`v1alpha1/fields.go:16: gated field NotInJSON has no name in JSON (its tag is "-"); add a tag such as json:"name,omitempty"`,
				"v1alpha1/fields.go:19: gated field AString is of type string" + present,
				"v1alpha1/fields.go:22: gated field AStruct is of type Inner" + present,
				"v1alpha1/fields.go:25: gated field AnArray is of type [2]string" + present,
				"v1alpha1/fields.go:28: gated field Default has a default, so it could never be absent; remove the marker +default and document what absence means",
				"v1alpha1/fields.go:32: gated field OtherDefault has a default, so it could never be absent; remove the marker +kubebuilder:default and document what absence means",
				"v1alpha1/fields.go:36: gated field Inner is inlined, so there is no property to hide; give it a name in its json tag",
				"v1alpha1/kinds.go:39: field More of KindList" + noKind,
				"v1alpha1/kinds.go:51: kind Hubless has no hub type in " + hub + ", which +k8s:conversion-gen names; add the type there",
				"v1alpha1/kinds.go:61: field Color of NoObject" + noKind,
				"v1alpha1/kinds.go:68: hub type " + hub + ".Empty has no field Color, which the way to the gated field leads through; add it",
				"v1alpha1/kinds.go:75: field Color of hub type " + hub + ".Shaped is of type string" + present,
				"v1alpha1/kinds.go:82: the served type contains itself where hub type " + hub + ".Endless contains " + hub + ".End; make them alike",
				"v1alpha1/kinds.go:90: field Flat of hub type string leads to no struct, as that of the served type does; give it a corresponding type",
				"v1alpha1/kinds.go:97: field Color of Unseen" + noKind,
				"v1alpha1/kinds.go:104: type Generic cannot have gated fields; only structs without type parameters can",
				"v1alpha1/markers.go:8: feature gate GadgetColour is not registered" + known,
				"v1alpha1/markers.go:11: feature gate GadgetOther is not registered" + known,
				`v1alpha1/markers.go:14: unknown option "onOff=Reject" of +featureGate; the only one is whenOff=Drop or whenOff=Reject`,
				"v1alpha1/markers.go:17: unknown whenOff=reject; it is Drop (the default) or Reject",
				"v1alpha1/markers.go:20: whenOff is given twice; keep one",
				`v1alpha1/markers.go:23: "+featureGate=" has no gate's name` + forms,
				`v1alpha1/markers.go:26: unknown marker "+featureGate"` + forms,
				`v1alpha1/markers.go:29: unknown marker "+featuregate=GadgetColor"` + forms,
				"v1alpha1/markers.go:33: field TwoGates has a second marker; a field has one gate",
				"v1alpha1/markers.go:36: feature gate GadgetColour is not registered" + known,
				"v1alpha1/markers.go:36: gated field Everything is not optional; add the marker +optional",
				"v1alpha1/markers.go:36: gated field Everything is of type string" + present,
				"v1alpha1/markers.go:36: gated field Everything is written when it is empty; add omitempty to its json tag",
				`v1alpha1/markers.go:36: unknown option "always" of +featureGate; the only one is whenOff=Drop or whenOff=Reject`,
				"v1alpha1/markers.go:36: unknown whenOff=Never; it is Drop (the default) or Reject",
				"v1alpha1/strays.go:8: +featureGate=GadgetColor gates nothing: it stands at a type, and only fields can be gated; put it above a field",
				"v1alpha1/strays.go:10: +featureGate=GadgetColor gates nothing: it stands behind the field; put it into the comment above the field",
				"v1alpha1/strays.go:12: " + apart,
				"v1alpha1/strays.go:18: " + apart,
				"v1alpha1/strays.go:24: " + apart,
				"v1alpha1/strays.go:30: field Color of Unused" + noKind,
			},
		},
		"a package that does not say what it is": {
			gates: exampleTree + "/gates", pattern: mistakesTree + "/nogroup",
			want: []string{
				"nogroup/doc.go:1: package " + mistakesTree + "/nogroup has gated fields and no group; add +groupName=NAME to its doc.go",
				"nogroup/doc.go:1: type Kind has a gated field and no name in OpenAPI; add +k8s:openapi-model-package=NAME to doc.go and run openapi-gen with --output-model-name-file",
			},
		},
		"no gates in the package of the gates": {
			gates: exampleTree + "/shared", pattern: mistakesTree + "/nogroup",
			want: []string{
				"nogroup/doc.go:1: package " + mistakesTree + "/nogroup has gated fields and no group; add +groupName=NAME to its doc.go",
				"nogroup/doc.go:1: type Kind has a gated field and no name in OpenAPI; add +k8s:openapi-model-package=NAME to doc.go and run openapi-gen with --output-model-name-file",
				"nogroup/types.go:17: feature gate GadgetColor is not registered: package " + exampleTree + "/shared has no constants of the type k8s.io/component-base/featuregate.Feature",
			},
		},
		"no package of gates": {
			pattern: mistakesTree + "/nogroup",
			want: []string{
				"nogroup/doc.go:1: package " + mistakesTree + "/nogroup has gated fields and no group; add +groupName=NAME to its doc.go",
				"nogroup/doc.go:1: type Kind has a gated field and no name in OpenAPI; add +k8s:openapi-model-package=NAME to doc.go and run openapi-gen with --output-model-name-file",
				"nogroup/types.go:17: no package of feature gates is known; name it with --gates-package, or with +featureGates=PATH in doc.go",
			},
		},
		"a package of gates that does not exist": {
			gates: exampleTree + "/gates", pattern: mistakesTree + "/nogates",
			want: []string{
				`nogates/doc.go:1: package example.com/no/such/gates, which this one names for its hub or gates, cannot be loaded: error(s) in "example.com/no/such/gates":`,
			},
		},
		"a marker on a hub that the generator is run on": {
			gates: exampleTree + "/gates", pattern: hub,
			want: []string{
				"hub/types.go:31: field Color of Shaped" + noKind,
				"hub/types.go:31: gated field Color has no name in JSON (its tag is missing); add a tag such as json:\"name,omitempty\"",
				"hub/types.go:31: gated field Color is not optional; add the marker +optional",
				"hub/types.go:31: gated field Color is of type string" + present,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := NewOptions()
			options.GatesPackage = tc.gates
			_, err := options.generate([]string{tc.pattern})
			if err == nil {
				t.Fatal("nothing was found wrong")
			}
			var got []string
			for line := range strings.Lines(err.Error()) {
				// What go list says about a package is its own affair.
				if mistake, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "testdata/mistakes/"); ok {
					got = append(got, mistake)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("mistakes (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestRunWritesWhatIsNew(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, content, want []byte
	}{
		"new":              {content: []byte("a"), want: []byte("a")},
		"changed":          {before: []byte("b"), content: []byte("a"), want: []byte("a")},
		"no longer wanted": {before: []byte("b")},
		"never wanted":     {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "file.go")
			if tc.before != nil {
				if err := os.WriteFile(file, tc.before, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := replace(file, tc.content); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(file)
			if (err == nil) != (tc.want != nil) || string(got) != string(tc.want) {
				t.Errorf("got %q and error %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestRunNeedsPackages(t *testing.T) {
	t.Parallel()
	if err := NewOptions().Run(nil); err == nil || !strings.Contains(err.Error(), "./apis/...") {
		t.Errorf("got error %v, want one that says what to name", err)
	}
	if err := (&Options{}).Run([]string{exampleTree + "/gates"}); err == nil || !strings.Contains(err.Error(), "--output-file") {
		t.Errorf("got error %v, want one about --output-file", err)
	}
}
