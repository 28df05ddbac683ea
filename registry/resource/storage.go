// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"fmt"
	"slices"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
)

// Install adds the kind's endpoints to a group: the resource, /status if the type has one, and its subresources.
func (k Kind[T]) Install(group *Group) error {
	_, err := k.InstallStore(group)
	return err
}

// InstallStore does as Install and returns the store, for endpoints that work on the same objects.
func (k Kind[T]) InstallStore(group *Group) (*genericregistry.Store, error) {
	resource := group.version.WithResource(k.Plural).GroupResource()
	if k.Companion != nil && len(k.subresources()) > 0 {
		return nil, fmt.Errorf("storage of %s: a kind with a companion has no subresources, which are written without it", resource)
	}
	main := strategy[T]{
		ObjectTyper: group.scheme, NameGenerator: names.SimpleNameGenerator, kind: k,
		gating: group.gating(resource, newObject[T](), k.Gate, k.GatedFields, k.mainWrites()),
	}
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return newObject[T]() },
		NewListFunc:               k.NewList,
		DefaultQualifiedResource:  resource,
		SingularQualifiedResource: schema.GroupResource{Group: resource.Group, Resource: k.Singular},
		CreateStrategy:            main,
		UpdateStrategy:            main,
		DeleteStrategy:            main,
		TableConvertor:            table[T]{columns: k.Columns, age: k.Age, order: k.Order},
		ReturnDeletedObject:       k.ReturnDeleted,
	}
	if k.Remains != nil {
		store.ShouldDeleteDuringUpdate = func(ctx context.Context, key string, obj, existing runtime.Object) bool {
			return !k.Remains(obj.(T)) && genericregistry.ShouldDeleteDuringUpdate(ctx, key, obj, existing)
		}
	}
	if k.TTL != nil {
		store.TTLFunc = func(obj runtime.Object, _ uint64, _ bool) (uint64, error) { return k.TTL(obj.(T)), nil }
	}
	if ignored := k.ignored(); len(ignored) > 0 {
		store.ResetFieldsStrategy = allBut(group.version, ignored...)
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: group.getter, AttrFunc: attributes(k)}); err != nil {
		return nil, fmt.Errorf("storage of %s: %w", resource, err)
	}
	reader, err := NewReader(group, k, store)
	if err != nil {
		store.Destroy()
		return nil, err
	}
	endpoint := &REST{Store: store, shortNames: k.ShortNames, categories: k.Categories, writer: store, corruptDeleter: store.GetCorruptObjDeleter()}
	if !k.Rules.empty() || k.Companion != nil || main.gating != nil {
		guarded := &guardedStore[T]{Reader: *reader, rules: k.Rules, companion: k.Companion}
		endpoint.writer, endpoint.corruptDeleter = guarded, corruptDeleter[T]{guarded}
	}
	group.Add(k.Plural, endpoint)
	for _, sub := range k.subresources() {
		group.Add(k.Plural+"/"+sub.Name, newSubresourceREST(group, *reader, main, sub))
	}
	return store, nil
}

func etcdPrefix(getter generic.RESTOptionsGetter, resource schema.GroupResource, example runtime.Object) (string, error) {
	options, err := getter.GetRESTOptions(resource, example)
	if err != nil {
		return "", fmt.Errorf("storage prefix of %s: %w", resource, err)
	}
	return options.StorageConfig.Prefix, nil
}

// ignored are the fields of the root that the resource's own endpoint does not take from updates.
func (k Kind[T]) ignored() []string {
	if !hasStatus(newObject[T]()) {
		return k.CreateOnly
	}
	return append([]string{"status"}, k.CreateOnly...)
}

// mainWrites tells whether the resource's own endpoint writes what is at a path.
func (k Kind[T]) mainWrites() func(path []string) bool {
	status := hasStatus(newObject[T]())
	return func(path []string) bool { return !status || path[0] != "status" }
}

// subresources returns the declared ones and /status, which every type with a status has, declared or not.
func (k Kind[T]) subresources() []Subresource[T] {
	own := slices.ContainsFunc(k.Subresources, func(sub Subresource[T]) bool { return sub.Name == "status" })
	if own || !hasStatus(newObject[T]()) {
		return k.Subresources
	}
	return append([]Subresource[T]{{
		Name:     "status",
		Fields:   [][]string{{"status"}},
		Metadata: k.MetadataWithStatus,
		Take:     func(into, from T) { copyStatus(into, from) },
		Validate: k.ValidateStatusUpdate,
	}}, k.Subresources...)
}

// writer is what a resource's endpoint does its writes with: the store itself, or the store under the guard.
type writer interface {
	Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error)
	Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error)
	rest.GracefulDeleter
	rest.CollectionDeleter
}

// REST serves a resource. Reads and watches are the store's; writes go through the guard where the kind has rules, a
// companion, or something that a feature has to permit.
type REST struct {
	*genericregistry.Store
	writer                 writer
	corruptDeleter         rest.GracefulDeleter
	shortNames, categories []string
}

var (
	_ rest.StandardStorage              = &REST{}
	_ rest.ResetFieldsStrategy          = &REST{}
	_ rest.ShortNamesProvider           = &REST{}
	_ rest.CategoriesProvider           = &REST{}
	_ rest.CorruptObjectDeleterProvider = &REST{}
)

// ShortNames implements rest.ShortNamesProvider.
func (r *REST) ShortNames() []string { return r.shortNames }

// Categories implements rest.CategoriesProvider.
func (r *REST) Categories() []string { return r.categories }

// Create implements rest.Creater.
func (r *REST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return r.writer.Create(ctx, obj, validate, options)
}

// Update implements rest.Updater.
func (r *REST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.writer.Update(ctx, name, info, validateCreate, validateUpdate, forceAllowCreate, options)
}

// Delete implements rest.GracefulDeleter.
func (r *REST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return r.writer.Delete(ctx, name, validate, options)
}

// DeleteCollection implements rest.CollectionDeleter.
func (r *REST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.writer.DeleteCollection(ctx, validate, options, list)
}

// GetCorruptObjDeleter implements rest.CorruptObjectDeleterProvider.
func (r *REST) GetCorruptObjDeleter() rest.GracefulDeleter { return r.corruptDeleter }
