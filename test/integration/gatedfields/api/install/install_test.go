// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/test/integration/gatedfields/api/v1alpha1"
	"github.com/kube-annex/annex/test/integration/gatedfields/gates"
)

func TestWidgetsAreStoredWhole(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	want := &v1alpha1.Widget{
		ObjectMeta: metav1.ObjectMeta{Name: "w"},
		Spec: v1alpha1.WidgetSpec{
			Width: 1, Color: ptr.To("red"),
			Parts:        []v1alpha1.Part{{Name: "a", Material: ptr.To("tin"), Bolts: []v1alpha1.Bolt{{Length: 2}}}},
			LabelsByZone: map[string]v1alpha1.Zone{"z": {Label: "up", Note: ptr.To("tin")}},
		},
		Status: v1alpha1.WidgetStatus{Summary: ptr.To("red"), Count: 3},
	}
	for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
		if !ok {
			t.Fatalf("%s is not supported", mediaType)
		}
		codec := codecs.CodecForVersions(info.Serializer, codecs.UniversalDeserializer(), v1alpha1.SchemeGroupVersion,
			schema.GroupVersion{Group: v1alpha1.GroupName, Version: runtime.APIVersionInternal})
		data, err := runtime.Encode(codec, want.DeepCopy())
		if err != nil {
			t.Fatalf("%s: %v", mediaType, err)
		}
		got, err := runtime.Decode(codec, data)
		if err != nil {
			t.Fatalf("%s: %v", mediaType, err)
		}
		got.(*v1alpha1.Widget).TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want,+got):\n%s", mediaType, diff)
		}
	}
}

func TestEveryGateOfAWidgetIsRegistered(t *testing.T) {
	t.Parallel()
	gate, err := gates.New()
	if err != nil {
		t.Fatal(err)
	}
	known := gate.GetAll()
	for _, f := range v1alpha1.GatedFields() {
		found := false
		for feature := range known {
			found = found || string(feature) == f.Gate
		}
		if !found {
			t.Errorf("the gate %s of %v is not registered", f.Gate, f.Path)
		}
	}
}
