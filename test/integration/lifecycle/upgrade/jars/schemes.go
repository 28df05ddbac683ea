// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package jars

import (
	"maps"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	featuresinstall "github.com/kube-annex/annex/apis/features/install"
	annexopenapi "github.com/kube-annex/annex/generated/openapi"
	nativeopenapi "github.com/kube-annex/annex/generated/openapi/native"
	"github.com/kube-annex/annex/registry/resource"
)

const groupName = "jars.annex.test"

var (
	alphaVersion = schema.GroupVersion{Group: groupName, Version: "v1alpha1"}
	betaVersion  = schema.GroupVersion{Group: groupName, Version: "v1beta1"}
	hub          = schema.GroupVersion{Group: groupName, Version: runtime.APIVersionInternal}
)

func resourceOf(version schema.GroupVersion) schema.GroupVersionResource {
	return version.WithResource("jars")
}

// scheme has the types of a release, which are their own hub. Leftovers are Jars as well, but for the hub, where a name can have but
// one type.
func (r Release) scheme() *runtime.Scheme {
	return resource.NewScheme(featuresinstall.Install, leases, func(scheme *runtime.Scheme) {
		var own, ownList runtime.Object = &AlphaJar{}, &AlphaJarList{}
		if r == Beta {
			own, ownList = &BetaJar{}, &BetaJarList{}
		}
		for _, version := range []schema.GroupVersion{r.version(), hub} {
			scheme.AddKnownTypeWithName(version.WithKind("Jar"), own)
			scheme.AddKnownTypeWithName(version.WithKind("JarList"), ownList)
		}
		scheme.AddKnownTypeWithName(r.other().WithKind("Jar"), &LeftoverJar{})
		scheme.AddKnownTypeWithName(r.other().WithKind("JarList"), &LeftoverJarList{})
		scheme.AddKnownTypes(hub, &LeftoverJar{}, &LeftoverJarList{})
		metav1.AddToGroupVersion(scheme, alphaVersion)
		metav1.AddToGroupVersion(scheme, betaVersion)
		utilruntime.Must(scheme.SetVersionPriority(r.version(), r.other()))
	})
}

func leases(scheme *runtime.Scheme) {
	utilruntime.Must(coordinationv1.AddToScheme(scheme))
	scheme.AddKnownTypes(schema.GroupVersion{Group: coordinationv1.GroupName, Version: runtime.APIVersionInternal}, &coordinationv1.Lease{}, &coordinationv1.LeaseList{})
}

// OpenAPIModelName is the name of the type's definition.
func (AlphaJar) OpenAPIModelName() string { return "test.annex.jars.AlphaJar" }

// OpenAPIModelName is the name of the type's definition.
func (AlphaJarList) OpenAPIModelName() string { return "test.annex.jars.AlphaJarList" }

// OpenAPIModelName is the name of the type's definition.
func (BetaJar) OpenAPIModelName() string { return "test.annex.jars.BetaJar" }

// OpenAPIModelName is the name of the type's definition.
func (BetaJarList) OpenAPIModelName() string { return "test.annex.jars.BetaJarList" }

// OpenAPIModelName is the name of the type's definition.
func (LeftoverJar) OpenAPIModelName() string { return "test.annex.jars.LeftoverJar" }

// OpenAPIModelName is the name of the type's definition.
func (LeftoverJarList) OpenAPIModelName() string { return "test.annex.jars.LeftoverJarList" }

func definitions(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	out := nativeopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(out, annexopenapi.GetOpenAPIDefinitions(ref))
	for item, list := range map[string]string{
		AlphaJar{}.OpenAPIModelName():    AlphaJarList{}.OpenAPIModelName(),
		BetaJar{}.OpenAPIModelName():     BetaJarList{}.OpenAPIModelName(),
		LeftoverJar{}.OpenAPIModelName(): LeftoverJarList{}.OpenAPIModelName(),
	} {
		out[item] = definition(ref, metav1.ObjectMeta{}.OpenAPIModelName(), map[string]spec.Schema{"spec": anything()})
		items := spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(item)}}
		out[list] = definition(ref, metav1.ListMeta{}.OpenAPIModelName(), map[string]spec.Schema{"items": *spec.ArrayProperty(&items)}, item)
	}
	return out
}

func definition(ref openapicommon.ReferenceCallback, metadata string, properties map[string]spec.Schema, dependencies ...string) openapicommon.OpenAPIDefinition {
	properties["apiVersion"], properties["kind"] = *spec.StringProperty(), *spec.StringProperty()
	properties["metadata"] = spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(metadata), Default: map[string]any{}}}
	return openapicommon.OpenAPIDefinition{
		Schema:       spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: properties}},
		Dependencies: append(dependencies, metadata),
	}
}

func anything() spec.Schema {
	return spec.Schema{
		SchemaProps:      spec.SchemaProps{Type: []string{"object"}},
		VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}},
	}
}
