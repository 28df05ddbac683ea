// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command models-schema prints the OpenAPI v2 schema of our served types, from which applyconfiguration-gen learns how
// server-side apply merges them.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kube-annex/annex/generated/openapi"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "models-schema: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	definitions := spec.Definitions{}
	for name, definition := range openapi.GetOpenAPIDefinitions(reference) {
		definitions[name] = v2Schema(definition)
	}
	document := spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "Annex", Version: "unversioned"}},
		Definitions: definitions,
	}}
	data, err := json.Marshal(&document)
	if err != nil {
		return fmt.Errorf("encoding the schema: %w", err)
	}
	if _, err := os.Stdout.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("writing the schema: %w", err)
	}
	return nil
}

func reference(name string) spec.Ref {
	return spec.MustCreateRef("#/definitions/" + name)
}

// v2Schema prefers the v2 form of a type that has another one in v3, such as Quantity.
func v2Schema(definition common.OpenAPIDefinition) spec.Schema {
	if schema, ok := definition.Schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
		return schema
	}
	return definition.Schema
}
