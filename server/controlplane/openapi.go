// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"maps"
	"reflect"
	"strings"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apiextensionsopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	aggregatoropenapi "k8s.io/kube-aggregator/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"

	nativeopenapi "github.com/kube-annex/annex/generated/openapi/native"
	"github.com/kube-annex/annex/registry/native"
)

// definitions returns the OpenAPI definitions of the types in the schemes and of all types that these refer to. The generated packages define
// many more, and each published definition costs memory while the server runs.
func definitions(groups []native.Group, schemes ...*runtime.Scheme) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		all := nativeopenapi.GetOpenAPIDefinitions(ref)
		for _, group := range groups {
			if group.Definitions != nil {
				maps.Copy(all, group.Definitions(ref))
			}
		}
		maps.Copy(all, apiextensionsopenapi.GetOpenAPIDefinitions(ref))
		maps.Copy(all, aggregatoropenapi.GetOpenAPIDefinitions(ref))
		reachable := map[string]common.OpenAPIDefinition{}
		for name := range all {
			// The common routes of every server refer to these types.
			if strings.HasPrefix(name, "io.k8s.apimachinery.") {
				include(reachable, all, name)
			}
		}
		for _, scheme := range schemes {
			for _, goType := range scheme.AllKnownTypes() {
				include(reachable, all, modelName(goType))
			}
		}
		return reachable
	}
}

func include(into, all map[string]common.OpenAPIDefinition, name string) {
	definition, known := all[name]
	if _, done := into[name]; done || !known {
		return
	}
	into[name] = definition
	for _, dependency := range definition.Dependencies {
		include(into, all, dependency)
	}
}

func modelName(goType reflect.Type) string {
	return util.GetCanonicalTypeName(reflect.New(goType).Interface())
}

// servedSchemes returns the schemes of all servers of the chain, without the hub types of built-in resources.
func (o *completedOptions) servedSchemes() []*runtime.Scheme {
	schemes := []*runtime.Scheme{o.kinds.NewServedScheme()}
	if !o.DisableCustomResources {
		schemes = append(schemes, apiextensionsapiserver.Scheme)
	}
	if !o.DisableAggregator {
		schemes = append(schemes, aggregatorscheme.Scheme)
	}
	return schemes
}
