// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Where documents keep what is referred to.
const (
	definitionsRoot = "/definitions/"
	parametersRoot  = "/parameters/"
	schemasRoot     = "/components/schemas/"
)

// Document is one OpenAPI document of a server, with everything that is gated: the one of v2, or the one of a path in v3.
type Document struct {
	// Gated lists what the document has of what is gated.
	Gated Gated

	// modelsRoot is what precedes a model's name where it is referred to.
	modelsRoot string
	references references
	// encode returns the document without what is hidden, as JSON.
	encode func(h hidden) ([]byte, error)
}

// newDocument keeps of what is gated that which the document has.
func newDocument(modelsRoot string, gated Gated, paths []string, model func(name string) (*spec.Schema, bool)) *Document {
	d := &Document{modelsRoot: modelsRoot}
	for _, field := range gated.Fields {
		schema, ok := model(common.EscapeJsonPointer(field.Model))
		if !ok {
			continue
		}
		if _, ok = schema.Properties[field.Property]; ok {
			d.Gated.Fields = append(d.Gated.Fields, field)
		}
	}
	for _, resource := range gated.Resources {
		if slices.ContainsFunc(paths, resource.serves) {
			d.Gated.Resources = append(d.Gated.Resources, resource)
		}
	}
	d.references = references{paths: map[string][]string{}, components: map[string][]string{}, properties: map[string]map[string][]string{}}
	return d
}

// NewDocumentV2 returns a document of OpenAPI v2 as it was built.
func NewDocumentV2(master *spec.Swagger, gated Gated) *Document {
	d := newDocument(definitionsRoot, gated, slices.Collect(maps.Keys(master.Paths.Paths)), func(name string) (*spec.Schema, bool) {
		schema, ok := master.Definitions[name]
		return &schema, ok
	})
	d.encode = func(h hidden) ([]byte, error) { return withoutV2(master, h).MarshalJSON() }
	properties := d.properties(d.Gated)
	if !d.hasGated() {
		return d
	}
	for path, item := range master.Paths.Paths {
		d.references.paths[path] = refs(item)
	}
	for name, model := range master.Definitions {
		d.references.add(definitionsRoot+name, model, properties[definitionsRoot+name])
	}
	for name, parameter := range master.Parameters {
		d.references.components[parametersRoot+name] = refs(parameter)
	}
	d.references.others = refs(master.Responses)
	return d
}

// NewDocumentV3 returns a document of OpenAPI v3 as it was built.
func NewDocumentV3(master *spec3.OpenAPI, gated Gated) *Document {
	if master.Paths == nil || master.Components == nil {
		gated = Gated{}
	}
	var paths []string
	if master.Paths != nil {
		paths = slices.Collect(maps.Keys(master.Paths.Paths))
	}
	d := newDocument(schemasRoot, gated, paths, func(name string) (*spec.Schema, bool) {
		schema, ok := master.Components.Schemas[name]
		return schema, ok
	})
	d.encode = func(h hidden) ([]byte, error) { return withoutV3(master, h).MarshalJSON() }
	properties := d.properties(d.Gated)
	if !d.hasGated() {
		return d
	}
	for path, item := range master.Paths.Paths {
		d.references.paths[path] = refs(item)
	}
	for name, model := range master.Components.Schemas {
		d.references.add(schemasRoot+name, *model, properties[schemasRoot+name])
	}
	others := *master.Components
	others.Schemas = nil
	d.references.others = refs(others)
	return d
}

func (d *Document) hasGated() bool { return len(d.Gated.Fields)+len(d.Gated.Resources) > 0 }

// properties returns the gated properties by component.
func (d *Document) properties(gated Gated) map[string]sets.Set[string] {
	properties := map[string]sets.Set[string]{}
	for _, field := range gated.Fields {
		component := d.modelsRoot + common.EscapeJsonPointer(field.Model)
		if properties[component] == nil {
			properties[component] = sets.New[string]()
		}
		properties[component].Insert(field.Property)
	}
	return properties
}

// Without returns the document without what is not permitted, as JSON.
func (d *Document) Without(permitted sets.Set[string]) ([]byte, error) {
	gated := d.Gated.Without(permitted)
	h := hidden{paths: sets.New[string](), properties: d.properties(gated)}
	for path := range d.references.paths {
		if slices.ContainsFunc(gated.Resources, func(resource GatedResource) bool { return resource.serves(path) }) {
			h.paths.Insert(path)
		}
	}
	if len(gated.Gates()) > 0 {
		d.references.hide(&h)
	}
	return d.encode(h)
}

// withoutV2 returns a document that shares with the master what is the same in both, and leaves the master as it is: parts
// of it are shared with the definitions that server-side apply knows fields from.
func withoutV2(master *spec.Swagger, h hidden) *spec.Swagger {
	out := *master
	paths := *master.Paths
	paths.Paths = without(paths.Paths, "", h.paths)
	out.Paths = &paths
	out.Parameters = without(out.Parameters, parametersRoot, h.components)
	out.Definitions = without(out.Definitions, definitionsRoot, h.components)
	for component, names := range h.properties {
		name := strings.TrimPrefix(component, definitionsRoot)
		if model, ok := out.Definitions[name]; ok {
			out.Definitions[name] = withoutProperties(model, names)
		}
	}
	return &out
}

// withoutV3 is withoutV2 for a document of v3.
func withoutV3(master *spec3.OpenAPI, h hidden) *spec3.OpenAPI {
	out := *master
	if master.Paths != nil {
		paths := *master.Paths
		paths.Paths = without(paths.Paths, "", h.paths)
		out.Paths = &paths
	}
	if master.Components == nil {
		return &out
	}
	components := *master.Components
	components.Schemas = without(components.Schemas, schemasRoot, h.components)
	for component, names := range h.properties {
		name := strings.TrimPrefix(component, schemasRoot)
		if model, ok := components.Schemas[name]; ok {
			changed := withoutProperties(*model, names)
			components.Schemas[name] = &changed
		}
	}
	out.Components = &components
	return &out
}

// without returns a copy that lacks the keys that are named after the root.
func without[M ~map[string]V, V any](all M, root string, names sets.Set[string]) M {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key string, _ V) bool { return names.Has(root + key) })
	return out
}

// withoutProperties returns a copy of a model that lacks the properties.
func withoutProperties(model spec.Schema, names sets.Set[string]) spec.Schema {
	model.Properties = without(model.Properties, "", names)
	model.Required = slices.DeleteFunc(slices.Clone(model.Required), names.Has)
	return model
}
