// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"cmp"
	"go/token"
	"reflect"
	"slices"
	"strings"

	"k8s.io/gengo/v2/types"

	"github.com/kube-annex/annex/apis/gatedfield"
)

// memberOf returns the field of a struct.
func memberOf(structure *types.Type, goName string) (types.Member, bool) {
	if structure == nil || structure.Kind != types.Struct {
		return types.Member{}, false
	}
	i := slices.IndexFunc(structure.Members, func(m types.Member) bool { return m.Name == goName })
	if i < 0 {
		return types.Member{}, false
	}
	return structure.Members[i], true
}

// jsonTag returns the property's name, which an inlined field has none of, and the options.
func jsonTag(member types.Member) (name string, options []string) {
	parts := strings.Split(reflect.StructTag(member.Tags).Get("json"), ",")
	return parts[0], parts[1:]
}

// inlined tells whether the properties of a field are properties of the struct that has it.
func inlined(member types.Member) bool {
	name, options := jsonTag(member)
	return name == "" && (member.Embedded || slices.Contains(options, "inline"))
}

// wrongWith says what keeps a field from being gated.
func wrongWith(member types.Member) []string {
	var out []string
	tag := reflect.StructTag(member.Tags).Get("json")
	name, options := jsonTag(member)
	switch {
	case inlined(member):
		out = append(out, "is inlined, so there is no property to hide; give it a name in its json tag")
	case name == "" || name == "-":
		out = append(out, "has no name in JSON (its tag is "+quoteTag(tag)+`); add a tag such as json:"name,omitempty"`)
	case !slices.Contains(options, "omitempty"):
		out = append(out, "is written when it is empty; add omitempty to its json tag")
	}
	if !hasComment(member, "+optional") && !hasComment(member, "+k8s:optional") {
		out = append(out, "is not optional; add the marker +optional")
	}
	for _, line := range member.CommentLines {
		for _, marker := range []string{"+default", "+kubebuilder:default"} {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), "="); word == marker {
				out = append(out, "has a default, so it could never be absent; remove the marker "+marker+" and document what absence means")
			}
		}
	}
	switch resolve(member.Type).Kind {
	case types.Pointer, types.Slice, types.Map:
	default:
		out = append(out, "is of type "+member.Type.Name.Name+", which cannot be absent; make it a pointer, a slice or a map")
	}
	return out
}

func quoteTag(tag string) string {
	if tag == "" {
		return "missing"
	}
	return `"` + tag + `"`
}

func hasComment(member types.Member, marker string) bool {
	return slices.ContainsFunc(member.CommentLines, func(line string) bool { return strings.TrimSpace(line) == marker })
}

// resolve follows aliases.
func resolve(t *types.Type) *types.Type {
	for t.Kind == types.Alias {
		t = t.Underlying
	}
	return t
}

// serialized tells whether a field is part of the API.
func serialized(member types.Member) bool {
	name, _ := jsonTag(member)
	return token.IsExported(member.Name) && name != "-"
}

// structIn returns the struct that a field leads to through pointers, lists and maps, or nil.
func structIn(t *types.Type) *types.Type {
	for {
		t = resolve(t)
		switch t.Kind {
		case types.Struct:
			return t
		case types.Pointer, types.Slice, types.Array, types.Map:
			t = t.Elem
		default:
			return nil
		}
	}
}

// stepsTo returns the part of a Path that leads through a field to the struct in it.
func stepsTo(member types.Member) []string {
	var out []string
	if name, _ := jsonTag(member); !inlined(member) {
		out = append(out, cmp.Or(name, member.Name))
	}
	for t := resolve(member.Type); ; t = resolve(t.Elem) {
		switch t.Kind {
		case types.Pointer:
		case types.Slice, types.Array:
			out = append(out, gatedfield.EachItem)
		case types.Map:
			out = append(out, gatedfield.EachValue)
		default:
			return out
		}
	}
}
