// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package fuzz

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metainternalversionvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/yaml"

	"github.com/kube-annex/annex/apis/features"
	featuresinstall "github.com/kube-annex/annex/apis/features/install"
	featuresvalidation "github.com/kube-annex/annex/apis/features/validation"
	"github.com/kube-annex/annex/apis/multicluster"
	multiclusterinstall "github.com/kube-annex/annex/apis/multicluster/install"
	multiclustervalidation "github.com/kube-annex/annex/apis/multicluster/validation"
	"github.com/kube-annex/annex/apis/node"
	nodeinstall "github.com/kube-annex/annex/apis/node/install"
	nodevalidation "github.com/kube-annex/annex/apis/node/validation"
	"github.com/kube-annex/annex/generated/applyconfiguration"
)

// mediaTypes are those that are decoded; cbor has no place of its own among those that a server serves by default.
var mediaTypes = []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	featuresinstall.Install(scheme)
	multiclusterinstall.Install(scheme)
	nodeinstall.Install(scheme)
	return scheme
}

// kinds are those of the extension.
var kinds = []schema.GroupVersionKind{
	{Group: "features.k8s.io", Version: "v1alpha1", Kind: "Feature"},
	{Group: "features.k8s.io", Version: "v1alpha1", Kind: "FeatureReport"},
	{Group: "multicluster.k8s.io", Version: "v1alpha1", Kind: "ClusterClaim"},
	{Group: "multicluster.k8s.io", Version: "v1alpha1", Kind: "ClusterIDReservation"},
	{Group: "node.k8s.io", Version: "v1alpha1", Kind: "NodeBalloon"},
}

// seeds are the examples of the repository, in JSON.
func seeds(f *testing.F) [][]byte {
	f.Helper()
	var all [][]byte
	for _, pattern := range []string{"*.yaml", "create-only/*.yaml"} {
		paths, err := filepath.Glob(filepath.Join("..", "..", "..", "artifacts", "examples", pattern))
		if err != nil || len(paths) == 0 {
			f.Fatal("no examples", err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			for _, document := range strings.Split(string(content), "\n---\n") {
				if object, err := yaml.YAMLToJSON([]byte(document)); err == nil && len(object) > 10 {
					all = append(all, object)
				}
			}
		}
	}
	for _, kind := range kinds {
		all = append(all, []byte(`{"apiVersion":"`+kind.GroupVersion().String()+`","kind":"`+kind.Kind+`","metadata":{"name":"a","managedFields":[{"manager":"m","operation":"Apply","apiVersion":"`+
			kind.GroupVersion().String()+`","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:value":{}}}}]},"spec":{},"status":{}}`))
	}
	return all
}

// FuzzDecode decodes anything, and encodes what has been understood.
func FuzzDecode(f *testing.F) {
	scheme := newScheme()
	codecs := serializer.NewCodecFactory(scheme)
	for _, seed := range seeds(f) {
		f.Add(byte(0), seed)
		f.Add(byte(1), seed)
		object, _, err := codecs.UniversalDecoder().Decode(seed, nil, nil)
		if err != nil {
			continue
		}
		info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
		binary, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, kinds[2].GroupVersion()), object)
		if err == nil {
			f.Add(byte(2), binary)
		}
	}
	f.Add(byte(1), []byte("a: &a [*a]\n"))
	f.Add(byte(1), []byte("{? {? a}}: !!binary x\n"))
	f.Add(byte(2), []byte("k8s\x00\x0a\xff\xff\xff\xff\x0f"))
	f.Add(byte(3), []byte("\xd9\xd9\xf7\x9b\x7f\xff\xff\xff\xff\xff\xff\xff"))
	binaryObjects := cbor.NewSerializer(scheme, scheme)
	f.Fuzz(func(t *testing.T, media byte, data []byte) {
		if int(media)%4 == 3 {
			_, _, _ = binaryObjects.Decode(data, nil, nil)
			return
		}
		info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaTypes[int(media)%4])
		for _, decoder := range []runtime.Decoder{info.Serializer, info.StrictSerializer} {
			object, kind, err := codecs.DecoderToVersion(decoder, runtime.InternalGroupVersioner).Decode(data, nil, nil)
			if err != nil {
				continue
			}
			encoded, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, kind.GroupVersion()), object)
			if err != nil {
				t.Fatalf("what was decoded from %q cannot be encoded: %v", data, err)
			}
			again, _, err := codecs.DecoderToVersion(info.Serializer, runtime.InternalGroupVersioner).Decode(encoded, nil, nil)
			if err != nil {
				t.Fatalf("what was encoded as %q cannot be decoded: %v", encoded, err)
			}
			if !equality.Semantic.DeepEqual(object, again) && info.MediaType == runtime.ContentTypeProtobuf {
				t.Fatalf("%q became %+v and then %+v", data, object, again)
			}
		}
	})
}

// FuzzValidation judges objects alone and as changes of one another.
func FuzzValidation(f *testing.F) {
	all := seeds(f)
	for i := range all {
		f.Add(all[i], all[(i+1)%len(all)])
		f.Add(all[i], all[i])
	}
	codecs := serializer.NewCodecFactory(newScheme())
	f.Fuzz(func(t *testing.T, first, second []byte) {
		object, _, err := codecs.UniversalDecoder().Decode(first, nil, nil)
		if err != nil {
			return
		}
		old, _, err := codecs.UniversalDecoder().Decode(second, nil, nil)
		if err != nil {
			old = object.DeepCopyObject()
		}
		before := object.DeepCopyObject()
		for _, problem := range validate(object, old) {
			if problem.Error() == "" || problem.Field == "" {
				t.Errorf("a problem says nothing: %+v", problem)
			}
		}
		if !equality.Semantic.DeepEqual(before, object) {
			t.Errorf("validation changed the object: %+v, before %+v", object, before)
		}
	})
}

func validate(object, old runtime.Object) field.ErrorList {
	switch object := object.(type) {
	case *features.Feature:
		old, ok := old.(*features.Feature)
		if !ok {
			old = object
		}
		return slices.Concat(featuresvalidation.ValidateFeature(object), featuresvalidation.ValidateFeatureUpdate(object, old),
			featuresvalidation.ValidateFeatureStatusUpdate(object, old))
	case *features.FeatureReport:
		return featuresvalidation.ValidateFeatureReport(object)
	case *multicluster.ClusterClaim:
		old, ok := old.(*multicluster.ClusterClaim)
		if !ok {
			old = object
		}
		_ = multiclustervalidation.ValidateClusterClaimName(object.Name, false)
		return slices.Concat(multiclustervalidation.ValidateClusterClaim(object), multiclustervalidation.ValidateClusterClaimUpdate(object, old),
			multiclustervalidation.ValidateClusterClaimStatusUpdate(object, old))
	case *multicluster.ClusterIDReservation:
		old, ok := old.(*multicluster.ClusterIDReservation)
		if !ok {
			old = object
		}
		return slices.Concat(multiclustervalidation.ValidateClusterIDReservation(object), multiclustervalidation.ValidateClusterIDReservationUpdate(object, old),
			multiclustervalidation.ValidateClusterIDReservationStatusUpdate(object, old))
	case *node.NodeBalloon:
		old, ok := old.(*node.NodeBalloon)
		if !ok {
			old = object
		}
		return slices.Concat(nodevalidation.ValidateNodeBalloon(object), nodevalidation.ValidateNodeBalloonUpdate(object, old),
			nodevalidation.ValidateNodeBalloonStatusUpdate(object, old))
	}
	return nil
}

// FuzzApply applies anything to anything that can be there.
func FuzzApply(f *testing.F) {
	scheme := newScheme()
	codecs := serializer.NewCodecFactory(scheme)
	fields := applyconfiguration.NewTypeConverter(scheme)
	all := seeds(f)
	for i := range all {
		f.Add(all[i], all[i], true)
		f.Add(all[i], all[(i+1)%len(all)], false)
	}
	f.Fuzz(func(t *testing.T, stored, applied []byte, force bool) {
		live, kind, err := codecs.UniversalDecoder().Decode(stored, nil, nil)
		if err != nil {
			return
		}
		patch := &unstructured.Unstructured{}
		if yaml.Unmarshal(applied, &patch.Object) != nil {
			return
		}
		owners, err := managedfields.NewDefaultFieldManager(fields, scheme, scheme, scheme, *kind, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		live = owners.UpdateNoErrors(live, live, "before")
		merged, err := owners.Apply(live, patch, "fuzz", force)
		if err != nil || merged == nil {
			return
		}
		again, err := owners.Apply(merged, patch, "fuzz", force)
		if err == nil && again != nil && !equality.Semantic.DeepEqual(withoutTimes(t, merged), withoutTimes(t, again)) {
			t.Errorf("applied again, %s changes %s to %s", applied, asJSON(t, merged), asJSON(t, again))
		}
	})
}

// withoutTimes takes out when fields were written.
func withoutTimes(t *testing.T, object runtime.Object) runtime.Object {
	t.Helper()
	object = object.DeepCopyObject()
	meta, ok := object.(metav1.Object)
	if !ok {
		return object
	}
	entries := meta.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	meta.SetManagedFields(entries)
	return object
}

func asJSON(t *testing.T, object any) string {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// FuzzListOptions reads the query of a list or watch as a server does.
func FuzzListOptions(f *testing.F) {
	for _, seed := range []string{
		"", "limit=500&continue=abc", "watch=true&resourceVersion=0&timeoutSeconds=1&allowWatchBookmarks=1", "labelSelector=a%3Db,c+in+(d,e),!f", "fieldSelector=metadata.name%3Da",
		"resourceVersionMatch=NotOlderThan&resourceVersion=1", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&watch=1", "limit=-1", "limit=9223372036854775808", "fieldSelector=a%5C%2C%3Db",
		"labelSelector=" + strings.Repeat("a,", 100), "timeoutSeconds=1&timeoutSeconds=2", "%00=%ff", "fieldSelector=spec.clusterID%3Da,metadata.namespace!%3Db",
	} {
		f.Add(seed)
	}
	scheme := newScheme()
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		options := metainternalversion.ListOptions{}
		if metainternalversionscheme.ParameterCodec.DecodeParameters(values, metav1.SchemeGroupVersion, &options) != nil {
			return
		}
		_ = metainternalversionvalidation.ValidateListOptions(&options, true)
		for _, kind := range kinds {
			if options.FieldSelector == nil {
				break
			}
			selector, err := options.FieldSelector.Transform(func(label, value string) (string, string, error) { return scheme.ConvertFieldLabel(kind, label, value) })
			if err == nil {
				_ = selector.String()
				_, _ = selector.RequiresExactMatch("metadata.name")
			}
		}
		if options.LabelSelector != nil {
			_, _ = options.LabelSelector.Requirements()
			_ = options.LabelSelector.String()
		}
	})
}

// FuzzContinueToken continues lists by tokens of anybody's making. None may lead out of what the list is about.
func FuzzContinueToken(f *testing.F) {
	const prefix = "/registry/core/secrets/mine/"
	good, err := storage.EncodeContinue(prefix+"a\x00", prefix, 7)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		good, "", "a", `{"v":"meta.k8s.io/v1","rv":1,"start":"../vault/a"}`, `{"v":"meta.k8s.io/v1","rv":-1,"start":"a"}`, `{"v":"meta.k8s.io/v1","rv":0,"start":""}`,
		`{"v":"meta.k8s.io/v1","rv":1,"start":"/"}`, `{"v":"meta.k8s.io/v1","rv":1,"start":"a/../../vault"}`, `{"v":"meta.k8s.io/v1","rv":1,"start":"..\u0000"}`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, token string, encode bool) {
		if encode {
			token = base64.RawURLEncoding.EncodeToString([]byte(token)) // which a fuzzer would hardly find by itself
		}
		key, revision, err := storage.DecodeContinue(token, prefix)
		if err != nil {
			return
		}
		if !strings.HasPrefix(key, prefix) || strings.Contains(key[len(prefix):], "/../") {
			t.Errorf("%q leads to %q, which is not below %q", token, key, prefix)
		}
		if revision == 0 {
			t.Errorf("%q has the revision 0", token)
		}
	})
}
