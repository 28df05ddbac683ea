// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// subresourceREST serves get, update, patch and apply of a part of an existing object.
type subresourceREST struct {
	takenFields
	store  *genericregistry.Store
	writer writer
}

var (
	_ rest.Patcher                   = &subresourceREST{}
	_ rest.Storage                   = &subresourceREST{}
	_ rest.ResetFieldsFilterStrategy = &subresourceREST{}
	_ rest.TableConvertor            = &subresourceREST{}
)

func newSubresourceREST[T Object](group *Group, store Reader[T], main strategy[T], sub Subresource[T]) *subresourceREST {
	validate := sub.Validate
	if validate == nil && sub.Name != "status" {
		validate = main.kind.ValidateUpdate
	}
	part := *store.store
	taken := sub.Fields
	if sub.Metadata {
		taken = append(slices.Clone(taken), []string{"metadata"})
	}
	out := &subresourceREST{takenFields: only(group.version, taken, sub.Except), store: &part, writer: &part}
	main.gating = group.gating(part.DefaultQualifiedResource, part.NewFunc(), "", main.kind.GatedFields, isWithin(sub.Fields))
	if main.gating != nil {
		out.writer = &guardedStore[T]{Reader: Reader[T]{store: &part, etcdPrefix: store.etcdPrefix}}
	}
	part.UpdateStrategy = subresourceStrategy[T]{
		strategy: main, take: sub.Take, metadata: sub.Metadata, validate: validate, countsGeneration: main.kind.countsGenerations(),
	}
	return out
}

// New implements rest.Storage.
func (r *subresourceREST) New() runtime.Object { return r.store.New() }

// Destroy implements rest.Storage; the store belongs to the resource's own endpoint.
func (r *subresourceREST) Destroy() {}

// Get implements rest.Getter.
func (r *subresourceREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update implements rest.Updater; a subresource never creates the object it belongs to.
func (r *subresourceREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.writer.Update(ctx, name, info, validateCreate, validateUpdate, false, options)
}

// ConvertToTable implements rest.TableConvertor.
func (r *subresourceREST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, options)
}
