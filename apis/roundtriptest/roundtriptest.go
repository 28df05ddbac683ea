// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package roundtriptest checks that an API group loses nothing on its way through any version and any encoding. It is not a stable API.
package roundtriptest

import (
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/randfill"
)

// Run fills every kind that install registers with random values, again and again, and takes it from the hub to each
// served version, through JSON, YAML, CBOR and protobuf, and back. It also checks that no field has an API default.
// Funcs fill what random values would not fill well; nil is fine.
func Run(t *testing.T, install func(*runtime.Scheme), funcs fuzzer.FuzzerFuncs) {
	t.Run("JSON and protobuf", func(t *testing.T) {
		roundtrip.RoundTripProtobufTestForAPIGroup(t, install, funcs)
	})

	scheme := runtime.NewScheme()
	install(scheme)
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	codecs := serializer.NewCodecFactory(scheme)
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, funcs), rand.NewSource(seed), codecs)
	t.Run("served versions alone", func(t *testing.T) {
		roundtrip.RoundTripExternalTypes(t, scheme, codecs, fill, nil)
	})

	// CreateOptions and its like are registered in every group, and have no hub.
	var served []schema.GroupVersionKind
	withoutHub := sets.New[schema.GroupVersionKind]()
	for kind := range scheme.AllKnownTypes() {
		switch {
		case kind.Version == runtime.APIVersionInternal, roundtrip.GlobalNonRoundTrippableTypes().Has(kind.Kind):
		case scheme.Recognizes(kind.GroupKind().WithVersion(runtime.APIVersionInternal)):
			served = append(served, kind)
		default:
			withoutHub.Insert(kind)
		}
	}
	if len(served) == 0 {
		t.Error("no kind has a hub and a served version")
	}
	t.Run("unstructured and CBOR", func(t *testing.T) {
		roundtrip.RoundtripToUnstructured(t, scheme, funcs, nil, withoutHub)
	})
	for _, kind := range served {
		t.Run("YAML/"+kind.Kind, func(t *testing.T) { throughYAML(t, scheme, codecs, fill, kind) })
		t.Run("defaults/"+kind.Kind, func(t *testing.T) { noDefaults(t, scheme, fill, kind) })
	}
}

func throughYAML(t *testing.T, scheme *runtime.Scheme, codecs serializer.CodecFactory, fill *randfill.Filler, kind schema.GroupVersionKind) {
	yaml := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	codec := codecs.CodecForVersions(yaml, yaml, kind.GroupVersion(), schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	for range *roundtrip.FuzzIters {
		hub := filled(t, scheme, fill, kind.GroupKind().WithVersion(runtime.APIVersionInternal))
		data, err := runtime.Encode(codec, hub)
		if err != nil {
			t.Fatalf("encoding: %v", err)
		}
		got, err := runtime.Decode(codec, data)
		if err != nil {
			t.Fatalf("decoding: %v\n%s", err, data)
		}
		if !apiequality.Semantic.DeepEqual(hub, got) {
			t.Fatalf("lost on the way through YAML (-want,+got):\n%s\n%s", cmp.Diff(hub, got), data)
		}
	}
}

// noDefaults holds the design's rule that an object reads back as it was written.
func noDefaults(t *testing.T, scheme *runtime.Scheme, fill *randfill.Filler, kind schema.GroupVersionKind) {
	empty, err := scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []runtime.Object{empty, filled(t, scheme, fill, kind)} {
		defaulted := object.DeepCopyObject()
		scheme.Default(defaulted)
		if diff := cmp.Diff(object, defaulted); diff != "" {
			t.Errorf("defaulting changed the object (-want,+got):\n%s", diff)
		}
	}
}

func filled(t *testing.T, scheme *runtime.Scheme, fill *randfill.Filler, kind schema.GroupVersionKind) runtime.Object {
	t.Helper()
	object, err := scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	fill.Fill(object)
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return object
}
