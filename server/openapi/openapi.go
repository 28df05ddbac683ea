// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"k8s.io/apimachinery/pkg/runtime"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"
)

// Apply makes the server publish OpenAPI v2 and v3 made from the definitions, under the given title. The schemes name
// the kinds that definitions belong to. Server-side apply takes its field ownership rules from the same definitions.
func Apply(config *genericapiserver.Config, title string, definitions common.GetOpenAPIDefinitions, schemes ...*runtime.Scheme) {
	namer := apiopenapi.NewDefinitionNamer(schemes...)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIConfig.Info.Title = title
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIV3Config.Info.Title = title
}
