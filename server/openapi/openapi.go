// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"fmt"
	"weak"

	"k8s.io/apimachinery/pkg/runtime"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Apply makes the server publish OpenAPI v2 and v3 made from the definitions, under the given title. The schemes name
// the kinds that definitions belong to. Server-side apply takes its field ownership rules from the same definitions.
func Apply(config *genericapiserver.Config, title string, definitions common.GetOpenAPIDefinitions, schemes ...*runtime.Scheme) {
	namer := apiopenapi.NewDefinitionNamer(schemes...)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIConfig.Info.Title = title
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIV3Config.Info.Title = title
	// The builders would make these themselves from what is for restful routes, once, and keep the first document for as long as them.
	config.OpenAPIConfig.GetOperationIDAndTagsFromRoute = operationOf
	config.OpenAPIV3Config.GetOperationIDAndTagsFromRoute = operationOf
	describeTokens(config)
}

func operationOf(route common.Route) (id string, tags []string, err error) {
	adapter, ok := route.(*restfuladapter.RouteAdapter)
	if !ok {
		return "", nil, fmt.Errorf("%s is no route of go-restful", route.Path())
	}
	return apiopenapi.GetOperationIDAndTags(adapter.Route)
}

// Release lets go of the definitions when all groups of all servers with this configuration are installed. They are made anew when somebody
// asks for a document.
func Release(config *genericapiserver.Config) { config.OpenAPIV3Config.Definitions = nil }

// definitions are models by name.
type definitions map[string]common.OpenAPIDefinition

// definitionsV3 returns what documents of v3 are built from, which stays for as long as there are more to build.
func (p *Publisher) definitionsV3() definitions {
	if p.v3.Definitions != nil {
		return p.v3.Definitions
	}
	if made := p.definitions.Value(); made != nil {
		return *made
	}
	made := definitions(p.v3.GetDefinitions(func(name string) spec.Ref {
		name, _ = p.v3.GetDefinitionName(name)
		return spec.MustCreateRef("#/components/schemas/" + common.EscapeJsonPointer(name))
	}))
	p.definitions = weak.Make(&made)
	return made
}

// describeTokens has the documents say that callers may sign in with a bearer token, and what they get who do not sign in. All servers
// say it: an aggregator publishes what they have in common, such as the list of groups, as any one of them describes it.
func describeTokens(config *genericapiserver.Config) {
	const name, kind, in, header, description = "BearerToken", "apiKey", "header", "authorization", "Bearer Token authentication"
	config.OpenAPIConfig.SecurityDefinitions = &spec.SecurityDefinitions{name: {
		SecuritySchemeProps: spec.SecuritySchemeProps{Type: kind, Name: header, In: in, Description: description},
	}}
	config.OpenAPIV3Config.SecuritySchemes = spec3.SecuritySchemes{name: {
		SecuritySchemeProps: spec3.SecuritySchemeProps{Type: kind, Name: header, In: in, Description: description},
	}}
}
