// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/registry/native/authentication"
	"github.com/kube-annex/annex/registry/native/authorization"
	"github.com/kube-annex/annex/registry/native/coordination"
	"github.com/kube-annex/annex/registry/native/core"
	"github.com/kube-annex/annex/registry/native/flowcontrol"
)

// group is what a scheme has to know of one API group.
type group struct {
	version  schema.GroupVersion
	types    []runtime.Object
	defaults map[runtime.Object]func(any)
	// selectable are the field selectors beyond metadata.name and metadata.namespace.
	selectable map[schema.GroupVersionKind][]string
}

func groups() []group {
	return []group{
		{version: core.GroupVersion, types: core.Types(), defaults: core.Defaults(), selectable: core.SelectableFields()},
		{version: authentication.GroupVersion, types: authentication.Types()},
		{version: authorization.GroupVersion, types: authorization.Types()},
		{version: coordination.GroupVersion, types: coordination.Types()},
		{version: flowcontrol.GroupVersion, types: flowcontrol.Types(), defaults: flowcontrol.Defaults()},
	}
}

// NewScheme returns a scheme with all native kinds, each both as its served version and as its own hub. Each server has
// its own: schemes can be changed.
func NewScheme() *runtime.Scheme {
	scheme := NewServedScheme()
	for _, group := range groups() {
		scheme.AddKnownTypes(schema.GroupVersion{Group: group.version.Group, Version: runtime.APIVersionInternal}, group.types...)
	}
	return scheme
}

// NewServedScheme returns a scheme with the served versions alone. It names the kinds in OpenAPI, where a hub that has the
// same Go types would show up as a version __internal.
func NewServedScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, group := range groups() {
		scheme.AddKnownTypes(group.version, group.types...)
		metav1.AddToGroupVersion(scheme, group.version)
		must(scheme.SetVersionPriority(group.version))
		for example, complete := range group.defaults {
			scheme.AddTypeDefaultingFunc(example, complete)
		}
		for kind, names := range group.selectable {
			must(scheme.AddFieldLabelConversionFunc(kind, selectable(names)))
		}
	}
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"},
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return scheme
}

func selectable(names []string) runtime.FieldLabelConversionFunc {
	return func(label, value string) (string, string, error) {
		if slices.Contains(names, label) {
			return label, value, nil
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
