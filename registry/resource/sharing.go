// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage/names"
)

// Beside returns an empty group of the same server that is never served itself. A kind that is installed there has a store, which is
// where and how adjust says, given what says so for this group; endpoints of served groups get to it by InstallOver.
func (g *Group) Beside(version schema.GroupVersion, adjust func(generic.RESTOptionsGetter) generic.RESTOptionsGetter) *Group {
	return NewGroup(g.scheme, g.codecs, adjust(g.getter), version)
}

// InstallOver serves the kind on a store that InstallStore made for the same Go type in another group: the same objects, judged by this
// kind's rules. How they are kept, selected and shown is up to the store. It returns a store for this endpoint alone, on the same storage.
// Kinds with a status, subresources, Rules, a companion or gated fields cannot be served so.
func (k Kind[T]) InstallOver(group *Group, store *genericregistry.Store) *genericregistry.Store {
	shared := *store
	resource := group.version.WithResource(k.Plural).GroupResource()
	main := strategy[T]{ObjectTyper: group.scheme, NameGenerator: names.SimpleNameGenerator, kind: k}
	shared.DefaultQualifiedResource = resource
	shared.SingularQualifiedResource = schema.GroupResource{Group: resource.Group, Resource: k.Singular}
	shared.CreateStrategy, shared.UpdateStrategy = main, main
	group.Add(k.Plural, &REST{
		Store: &shared, shortNames: k.ShortNames, categories: k.Categories, writer: &shared, corruptDeleter: shared.GetCorruptObjDeleter(),
	})
	return &shared
}
