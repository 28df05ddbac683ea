// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/registry/resource"
)

// NewScheme returns a scheme with the kinds, each both in its served version and as a hub. Each server has its own: schemes can be
// changed.
func (k Kinds) NewScheme() *runtime.Scheme {
	scheme := k.NewServedScheme()
	for _, group := range k.groups(Dependencies{}) {
		internal := schema.GroupVersion{Group: group.Version.Group, Version: runtime.APIVersionInternal}
		for _, kind := range group.Kinds {
			for guests, types := range kind.Guests {
				scheme.AddKnownTypes(schema.GroupVersion{Group: guests.Group, Version: runtime.APIVersionInternal}, types...)
			}
			if kind.Hub == nil {
				scheme.AddKnownTypes(internal, kind.Types...)
				continue
			}
			scheme.AddKnownTypes(internal, kind.Hub...)
			must(kind.Convert(scheme))
		}
	}
	return scheme
}

// NewServedScheme returns a scheme with the served versions alone. It names the kinds in OpenAPI, where a hub that has the
// same Go types would show up as a version __internal.
func (k Kinds) NewServedScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, group := range k.groups(Dependencies{}) {
		metav1.AddToGroupVersion(scheme, group.Version)
		must(scheme.SetVersionPriority(group.Version))
		for _, kind := range group.Kinds {
			add(scheme, group.Version, kind)
		}
	}
	legacy := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, legacy)
	scheme.AddUnversionedTypes(legacy,
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}

func add(scheme *runtime.Scheme, version schema.GroupVersion, kind resource.Served) {
	scheme.AddKnownTypes(version, kind.Types...)
	for guests, types := range kind.Guests {
		scheme.AddKnownTypes(guests, types...)
	}
	for example, complete := range kind.Defaults {
		scheme.AddTypeDefaultingFunc(example, complete)
	}
	if len(kind.Selectable) == 0 {
		return
	}
	kinds, _, err := scheme.ObjectKinds(kind.Types[0])
	must(err)
	must(scheme.AddFieldLabelConversionFunc(version.WithKind(kinds[0].Kind), selectable(kind.Selectable)))
}

func selectable(names map[string]string) runtime.FieldLabelConversionFunc {
	return func(label, value string) (string, string, error) {
		if stored, ok := names[label]; ok {
			return stored, value, nil
		}
		return runtime.DefaultMetaV1FieldSelectorConversion(label, value)
	}
}

// must panics on what can only be a mistake in this package.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("registering native kinds: %v", err))
	}
}
