// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/registry/resource"
)

// A kind is declared once; its endpoints are added to a group, which a generic apiserver installs.
func ExampleKind() {
	validate := func(c *corev1.ConfigMap) field.ErrorList {
		if len(c.Data) == 0 {
			return field.ErrorList{field.Required(field.NewPath("data"), "set a key")}
		}
		return nil
	}
	kind := resource.Kind[*corev1.ConfigMap]{
		Plural: "configmaps", Singular: "configmap",
		NewList:        func() runtime.Object { return &corev1.ConfigMapList{} },
		Validate:       validate,
		ValidateUpdate: func(c, _ *corev1.ConfigMap) field.ErrorList { return validate(c) },
		Columns:        []resource.Column[*corev1.ConfigMap]{{Name: "Keys", Type: "integer", Of: func(c *corev1.ConfigMap) any { return len(c.Data) }}},
	}
	version := corev1.SchemeGroupVersion
	scheme := resource.NewScheme(func(scheme *runtime.Scheme) { utilruntime.Must(corev1.AddToScheme(scheme)) })
	codecs := serializer.NewCodecFactory(scheme)
	group := resource.NewGroup(scheme, codecs, storeOptions{codecs.LegacyCodec(version)}, version)
	if err := kind.Install(group); err != nil {
		fmt.Println(err)
		return
	}
	defer group.Destroy()

	ctx := request.WithNamespace(context.Background(), "default")
	empty := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}
	_, err := group.Storage("configmaps").(rest.Creater).Create(ctx, empty, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	fmt.Println(err)
	// Output: ConfigMap "empty" is invalid: data: Required value: set a key
}

// storeOptions are those of a server without a store; registry/storage has a decorator for etcd.
type storeOptions struct{ codec runtime.Codec }

func (o storeOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig: storagebackend.NewDefaultConfig("/registry", o.codec).ForResource(resource), ResourcePrefix: resource.Resource,
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil
		},
	}, nil
}
