// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Served is a kind as a server that has many of them lists it: what its scheme has to know, and what builds its endpoints.
type Served struct {
	// Resource is the plural name in paths.
	Resource string
	// Types are an empty object of every type that the served version has for the kind, the kind's own first.
	Types []runtime.Object
	// Hub is what Types are converted to, by what Convert registers. Nil means that Types are their own hub.
	Hub     []runtime.Object
	Convert func(*runtime.Scheme) error
	// Guests are types of other group-versions that the endpoints take or return, each its own hub. Their group need not be served.
	Guests map[schema.GroupVersion][]runtime.Object
	// Defaults complete objects when they are read from a request or from storage.
	Defaults map[runtime.Object]func(any)
	// Selectable maps the field selectors beyond metadata.name and metadata.namespace to the names that the store has for them.
	Selectable map[string]string
	// Install adds the endpoints to their group.
	Install func(*Group) error
}

// Served lists the kind for servers whose kinds are their own hub.
func (k Kind[T]) Served() Served {
	served := Served{
		Resource: k.Plural,
		Types:    []runtime.Object{newObject[T](), k.NewList()},
		Install:  k.Install,
	}
	if k.Default != nil {
		served.Defaults = map[runtime.Object]func(any){
			newObject[T](): func(obj any) { k.Default(obj.(T)) },
			k.NewList(): func(list any) {
				// The error can only be the function's own.
				_ = meta.EachListItem(list.(runtime.Object), func(item runtime.Object) error {
					k.Default(item.(T))
					return nil
				})
			},
		}
	}
	for name := range k.SelectableFields {
		if served.Selectable == nil {
			served.Selectable = map[string]string{}
		}
		served.Selectable[name] = name
	}
	return served
}

// InstallAll adds the endpoints of kinds to their group. The error names the kind.
func InstallAll(group *Group, kinds []Served) error {
	for _, kind := range kinds {
		if err := kind.Install(group); err != nil {
			return fmt.Errorf("build %s of %s: %w", kind.Resource, group.version, err)
		}
	}
	return nil
}

// Installer returns what adds the endpoints of kinds to their group.
func Installer(kinds []Served) func(*Group) error {
	return func(group *Group) error { return InstallAll(group, kinds) }
}
