// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/registry/resource"
)

// Note is something to remember.
type Note struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Text is what to remember.
	Text string `json:"text"`
}

// NoteList is a list of notes.
type NoteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Note `json:"items"`
}

// notesGroup is what is served: how notes are judged, shown and described.
func notesGroup() native.Group {
	kind := resource.Kind[*Note]{
		Plural: "notes", Singular: "note",
		NewList:        func() runtime.Object { return &NoteList{} },
		Validate:       validate,
		ValidateUpdate: func(note, _ *Note) field.ErrorList { return validate(note) },
		Columns:        []resource.Column[*Note]{{Name: "Text", Of: func(note *Note) any { return note.Text }}},
	}
	return native.Group{
		Version: schema.GroupVersion{Group: "notes.example.com", Version: "v1"}, Kinds: []resource.Served{kind.Served()}, Definitions: definitions,
	}
}

func validate(note *Note) field.ErrorList {
	if note.Text == "" {
		return field.ErrorList{field.Required(field.NewPath("text"), "say what to remember")}
	}
	return nil
}

// What follows is usually generated.

// DeepCopyObject implements runtime.Object.
func (n *Note) DeepCopyObject() runtime.Object {
	out := *n
	n.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *NoteList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Note))
	}
	return &out
}

// OpenAPIModelName is the name of the type's definition.
func (Note) OpenAPIModelName() string { return "com.example.notes.v1.Note" }

// OpenAPIModelName is the name of the type's definition.
func (NoteList) OpenAPIModelName() string { return "com.example.notes.v1.NoteList" }

func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	text := func(description string) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"string"}, Description: description}}
	}
	of := func(name string) spec.Schema { return spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(name)}} }
	object := func(description string, meta string, more string, schema spec.Schema) common.OpenAPIDefinition {
		return common.OpenAPIDefinition{
			Schema: spec.Schema{SchemaProps: spec.SchemaProps{
				Type: []string{"object"}, Description: description, Required: []string{more},
				Properties: map[string]spec.Schema{
					"apiVersion": text("The version of the API."), "kind": text("The kind of the object."), "metadata": of(meta), more: schema,
				},
			}},
			Dependencies: []string{meta},
		}
	}
	note := Note{}.OpenAPIModelName()
	items := of(note)
	list := object("NoteList is a list of notes.", metav1.ListMeta{}.OpenAPIModelName(), "items",
		spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"array"}, Items: &spec.SchemaOrArray{Schema: &items}}})
	list.Dependencies = append(list.Dependencies, note)
	return map[string]common.OpenAPIDefinition{
		note:                          object("Note is something to remember.", metav1.ObjectMeta{}.OpenAPIModelName(), "text", text("Text is what to remember.")),
		NoteList{}.OpenAPIModelName(): list,
	}
}
