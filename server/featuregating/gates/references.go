// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"reflect"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// hidden lists what one document omits.
type hidden struct {
	paths sets.Set[string]
	// properties are names by the component that has them.
	properties map[string]sets.Set[string]
	// components are those that nothing refers to without the paths and properties.
	components sets.Set[string]
}

// references is what refers to what in one document. Components, such as models, are named as in "$ref", without the "#".
type references struct {
	// paths holds the components that each path refers to.
	paths map[string][]string
	// components holds those that each component refers to, gated properties aside.
	components map[string][]string
	// properties holds those that gated properties refer to, by component and name.
	properties map[string]map[string][]string
	// others are referred to from elsewhere in the document.
	others []string
}

// hide completes what is hidden with the components that vanish in consequence. Those that nothing referred to in the first
// place stay, unless what is hidden leads to them.
func (r *references) hide(h *hidden) {
	affected := sets.New[string]()
	for path := range h.paths {
		r.follow(r.paths[path], affected, nil)
	}
	for component, names := range h.properties {
		for name := range names {
			r.follow(r.properties[component][name], affected, nil)
		}
	}
	reached, kept := sets.New[string](), sets.New[string]()
	r.follow(r.others, reached, nil)
	r.follow(r.others, kept, h.properties)
	for path, components := range r.paths {
		r.follow(components, reached, nil)
		if !h.paths.Has(path) {
			r.follow(components, kept, h.properties)
		}
	}
	for component := range r.components {
		if !reached.Has(component) && !affected.Has(component) {
			r.follow([]string{component}, kept, h.properties)
		}
	}
	h.components = affected.Difference(kept)
}

// follow adds the components and all that they lead to, except through the given properties.
func (r *references) follow(from []string, into sets.Set[string], except map[string]sets.Set[string]) {
	for _, component := range from {
		if into.Has(component) {
			continue
		}
		into.Insert(component)
		r.follow(r.components[component], into, except)
		for name, components := range r.properties[component] {
			if !except[component].Has(name) {
				r.follow(components, into, except)
			}
		}
	}
}

// add notes what a model refers to, separately for its gated properties.
func (r *references) add(component string, model spec.Schema, gated sets.Set[string]) {
	if len(gated) > 0 {
		r.properties[component] = map[string][]string{}
		for name := range gated {
			r.properties[component][name] = refs(model.Properties[name])
		}
		model = withoutProperties(model, gated)
	}
	r.components[component] = refs(model)
}

// refs returns the components that a part of a document refers to, anywhere in it.
func refs(part any) []string {
	var found []string
	collect(reflect.ValueOf(part), &found)
	return found
}

var refType = reflect.TypeFor[spec.Ref]()

func collect(value reflect.Value, into *[]string) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			collect(value.Elem(), into)
		}
	case reflect.Struct:
		if value.Type() == refType {
			ref := value.Interface().(spec.Ref)
			if url := ref.GetURL(); url != nil && url.Fragment != "" {
				*into = append(*into, url.Fragment)
			}
			return
		}
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				collect(value.Field(i), into)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range value.Len() {
			collect(value.Index(i), into)
		}
	case reflect.Map:
		for _, key := range value.MapKeys() {
			collect(value.MapIndex(key), into)
		}
	default: // Interfaces are extensions, defaults and examples; what is in them is no reference.
	}
}
