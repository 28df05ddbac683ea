// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package quantities

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/kube-annex/annex/apis/features"
	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/node"
	"github.com/kube-annex/annex/apis/node/install"
	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

func TestTextOfQuantities(t *testing.T) {
	t.Parallel()
	for text, fine := range map[string]bool{
		"0": true, "1500m": true, "24Gi": true, "1e3": true, "-1E+30": true, "1.5e-30": true, "9223372036854775807": true, "1Ei": true, "1E": true,
		"1e31": false, "1e-31": false, "1E+30000000": false, " 1e30000000 ": false, "-.5e-30000000": false, "1e99999999999999999999": false, "1e0000031": false,
		strings.Repeat("9", 64): true, strings.Repeat("9", 65): false, "0." + strings.Repeat("0", 100) + "1": false,
		"abc1e30000000": true, "node-1e4000": true, "1e3000x": true, "": true, strings.Repeat("a", 1000): true,
	} {
		if err := CheckText(text); (err == nil) != fine {
			t.Errorf("%q: got %v, fine is %t", text, err, fine)
		}
	}
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	install.Install(s)
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// encoded returns a NodeBalloon with the text in the place of a quantity that is as long.
func encoded(t *testing.T, encoder runtime.Encoder, text string) []byte {
	t.Helper()
	placeholder := strings.Repeat("7", len(text))
	balloon := &v1alpha1.NodeBalloon{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeBalloon"},
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       v1alpha1.NodeBalloonSpec{NodeSize: corev1.ResourceList{"cpu": apiresource.MustParse(placeholder)}},
	}
	data, err := runtime.Encode(encoder, balloon)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(data, []byte(placeholder)) != 1 {
		t.Fatalf("the quantity is not in %q", data)
	}
	return bytes.Replace(data, []byte(placeholder), []byte(text), 1)
}

func TestQuantitiesInBodies(t *testing.T) {
	t.Parallel()
	s := scheme(t)
	ways := map[string]func(text string) (contentType string, body []byte){
		"JSON": func(text string) (string, []byte) {
			return "application/json; charset=utf-8", []byte(`{"spec":{"nodeSize":{"cpu":"` + text + `"}}}`)
		},
		"JSON without a media type": func(text string) (string, []byte) { return "", []byte(`{"spec":{"nodeSize":{"cpu":"` + text + `"}}}`) },
		"JSON, a number": func(text string) (string, []byte) {
			return "application/json", []byte(`{"spec":{"nodeSize":{"cpu":` + text + `}}}`)
		},
		"JSON, a key twice": func(text string) (string, []byte) {
			return "application/json", []byte(`{"spec":{"nodeSize":{"cpu":"` + text + `","cpu":"1"}}}`)
		},
		"JSON patch": func(text string) (string, []byte) {
			return "application/json-patch+json", []byte(`[{"value":"` + text + `"}]`)
		},
		"merge patch": func(text string) (string, []byte) {
			return "application/merge-patch+json", []byte(`{"cpu":"` + text + `"}`)
		},
		"merge patch, coded": func(text string) (string, []byte) {
			return "application/merge-patch+json", []byte(`{"cpu":"\u0031` + text[1:] + `"}`)
		},
		"strategic patch": func(text string) (string, []byte) {
			return "application/strategic-merge-patch+json", []byte(`{"cpu":"` + text + `"}`)
		},
		"YAML": func(text string) (string, []byte) {
			return "application/yaml", []byte("spec: {nodeSize: {cpu: '" + text + "'}}")
		},
		"YAML, coded": func(text string) (string, []byte) {
			return "application/yaml", []byte("cpu: \"\\x31" + text[1:] + "\"")
		},
		"YAML, in two lines": func(text string) (string, []byte) {
			return "application/yaml", []byte("cpu: \"" + text[:3] + "\\\n  " + text[3:] + "\"")
		},
		"apply": func(text string) (string, []byte) {
			return "application/apply-patch+yaml", []byte("cpu: '" + text + "'")
		},
		"CBOR": func(text string) (string, []byte) {
			return "application/cbor", encoded(t, cbor.NewSerializer(s, s), text)
		},
		"apply CBOR": func(text string) (string, []byte) {
			return "application/apply-patch+cbor", encoded(t, cbor.NewSerializer(s, s), text)
		},
		"protobuf": func(text string) (string, []byte) {
			return "application/vnd.kubernetes.protobuf", encoded(t, protobuf.NewSerializer(s, s), text)
		},
		"protobuf, broken behind it": func(text string) (string, []byte) {
			return "application/vnd.kubernetes.protobuf", append(encoded(t, protobuf.NewSerializer(s, s), text), 0xff)
		},
	}
	for name, way := range ways {
		for _, text := range []string{"1e30000000", "1e-30000000", "1E+999999999"} {
			if contentType, body := way(text); CheckBody(contentType, body) == nil {
				t.Errorf("%s: %s passes", name, text)
			}
		}
		if err := CheckBody(way("1000000e-3")); err != nil {
			t.Errorf("%s: a quantity that is fine: %v", name, err)
		}
	}
	for contentType, body := range map[string]string{"application/json": "{", "application/yaml": "{", "application/cbor": "{", "application/vnd.kubernetes.protobuf": "\xff", "text/plain": "1e30000000"} {
		if err := CheckBody(contentType, []byte(body)); err != nil {
			t.Errorf("%s: what is no object is refused: %v", contentType, err)
		}
	}
}

// TestStoredQuantitiesAreLimited reads what an earlier version has stored. Unlimited, the negative exponents do not end within the test's time.
func TestStoredQuantitiesAreLimited(t *testing.T) {
	t.Parallel()
	s := scheme(t)
	codecs := serializer.NewCodecFactory(s)
	for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
		if !ok {
			t.Fatal(mediaType)
		}
		codec := Codec(codecs.CodecForVersions(info.Serializer, info.Serializer, v1alpha1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion))
		for text, want := range map[string]string{"1e30000000": "1e30", "1e1000000000": "1e30", "1e-1000000000": "1n", "-1E+99999999": "-1e30", "1e31": "1e30", "5e3": "5e3"} {
			data := encoded(t, info.Serializer, text)
			before := bytes.Clone(data)
			object, _, err := codec.Decode(data, nil, nil)
			if err != nil {
				t.Errorf("%s, %s: %v", mediaType, text, err)
				continue
			}
			got, wanted := object.(*v1alpha1.NodeBalloon).Spec.NodeSize["cpu"], apiresource.MustParse(want)
			if got.Cmp(wanted) != 0 && text != "1e31" {
				t.Errorf("%s, %s: got %s, want %s", mediaType, text, &got, want)
			}
			if !bytes.Equal(before, data) {
				t.Errorf("%s, %s: the bytes of the store were changed", mediaType, text)
			}
		}
	}
}

// TestAllKindsWithQuantitiesAreKnown looks through the types of our groups and of the built-in kinds.
func TestAllKindsWithQuantitiesAreKnown(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		object   any
		resource schema.GroupResource
	}{
		{corev1.ResourceQuota{}, corev1.Resource("resourcequotas")},
		{corev1.ConfigMap{}, corev1.Resource("configmaps")},
		{corev1.Secret{}, corev1.Resource("secrets")},
		{corev1.Namespace{}, corev1.Resource("namespaces")},
		{corev1.ServiceAccount{}, corev1.Resource("serviceaccounts")},
		{node.NodeBalloon{}, node.Resource("nodeballoons")},
		{features.Feature{}, features.Resource("features")},
		{features.FeatureReport{}, features.Resource("featurereports")},
		{multicluster.ClusterClaim{}, multicluster.Resource("clusterclaims")},
		{multicluster.ClusterIDReservation{}, multicluster.Resource("clusteridreservations")},
	} {
		if got := InResource(tc.resource); got != hasQuantity(reflect.TypeOf(tc.object), map[reflect.Type]bool{}) {
			t.Errorf("%s: known as having quantities is %t", tc.resource, got)
		}
	}
}

func hasQuantity(of reflect.Type, seen map[reflect.Type]bool) bool {
	if of == reflect.TypeFor[apiresource.Quantity]() {
		return true
	}
	if seen[of] {
		return false
	}
	seen[of] = true
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return hasQuantity(of.Elem(), seen)
	case reflect.Struct:
		for i := range of.NumField() {
			if hasQuantity(of.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}
