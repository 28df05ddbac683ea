// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/registry/native/core"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	scheme := native.Kinds{}.NewScheme()
	for name, tc := range map[string]struct{ in, want runtime.Object }{
		"a namespace carries its name": {
			in: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			want: &corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"kubernetes.io/metadata.name": "a"}},
				Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
			},
		},
		"a namespace without a name yet": {
			in:   &corev1.Namespace{},
			want: &corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		},
		"a quota that is finer than can be counted": {
			in:   &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"cpu": apiresource.MustParse("100u")}}},
			want: &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"cpu": apiresource.MustParse("1m")}}},
		},
		"stringData wins over data and does not stay": {
			in:   &corev1.Secret{Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}, StringData: map[string]string{"a": "3"}},
			want: &corev1.Secret{Data: map[string][]byte{"a": []byte("3"), "b": []byte("2")}, Type: "Opaque"},
		},
		"a secret in a list": {
			in:   &corev1.SecretList{Items: []corev1.Secret{{}}},
			want: &corev1.SecretList{Items: []corev1.Secret{{Type: "Opaque"}}},
		},
		"a flow schema": {
			in:   &flowcontrolv1.FlowSchema{},
			want: &flowcontrolv1.FlowSchema{Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: 1000}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.in.DeepCopyObject()
			scheme.Default(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

// TestBootstrapObjectsAreComplete guards the controller that compares them with what is stored.
func TestBootstrapObjectsAreComplete(t *testing.T) {
	t.Parallel()
	scheme := native.Kinds{}.NewScheme()
	var objects []runtime.Object
	for _, list := range [][]*flowcontrolv1.FlowSchema{bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas} {
		for _, schema := range list {
			objects = append(objects, schema)
		}
	}
	for _, list := range [][]*flowcontrolv1.PriorityLevelConfiguration{bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations} {
		for _, level := range list {
			objects = append(objects, level)
		}
	}
	for _, object := range objects {
		got := object.DeepCopyObject()
		scheme.Default(got)
		if diff := cmp.Diff(object, got); diff != "" {
			t.Errorf("defaulting changes it (-want,+got):\n%s", diff)
		}
	}
}

func TestStoredObjectsRoundTrip(t *testing.T) {
	t.Parallel()
	scheme := native.Kinds{}.NewScheme()
	codec := serializer.NewCodecFactory(scheme).LegacyCodec(core.GroupVersion)
	want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "v"}}
	encoded, err := runtime.Encode(codec, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := runtime.Decode(codec, encoded)
	if err != nil {
		t.Fatal(err)
	}
	got.GetObjectKind().SetGroupVersionKind(want.GroupVersionKind())
	if diff := cmp.Diff(runtime.Object(want), got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestServedSchemeHasNoHub(t *testing.T) {
	t.Parallel()
	for kind := range (native.Kinds{}).NewServedScheme().AllKnownTypes() {
		// WatchEvent's counterpart is registered by the libraries for every group.
		if kind.Version == runtime.APIVersionInternal && kind.Kind != "WatchEvent" {
			t.Errorf("%s would show up in OpenAPI", kind)
		}
	}
}
