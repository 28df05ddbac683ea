// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"slices"
	"strings"

	"k8s.io/gengo/v2/types"
)

// checkOutside looks for markers in packages that the generator is not run on, where they would gate nothing. Kubernetes' own types
// have markers of the same form, so only those count that name one of our gates.
func (a *api) checkOutside(p *apiPackage, kind *types.Type, within []*types.Type) {
	for _, t := range within {
		path := t.Name.Package
		if path == "" || slices.ContainsFunc(a.packages, func(other *apiPackage) bool { return other.Path == path }) {
			continue
		}
		for _, member := range t.Members {
			if !slices.ContainsFunc(member.CommentLines, isMarker) {
				continue
			}
			src, err := a.sourceOf(path)
			if err != nil {
				a.mistakes.add(p.docs, "looking for markers in package %s: %v", path, err)
				continue
			}
			for _, found := range src.fields[fieldName{t.Name.Name, member.Name}] {
				if gate, _, _ := found.parse(); slices.Contains(p.gates, gate) {
					a.mistakes.add(found.at, "field %s of %s, which %s contains, is gated by %s, and the generator is not run on package %s; name that package too",
						member.Name, t.Name.Name, kind.Name.Name, gate, path)
				}
			}
		}
	}
}

// hubOf returns the hub type of a row's kind, whose fields must lead the same way.
func (a *api) hubOf(p *apiPackage, entry row) *types.Type {
	var hub *types.Type
	for _, path := range p.hubs {
		if candidate := a.universe.Package(path).Types[entry.kind.Name.Name]; candidate != nil {
			hub = candidate
			break
		}
	}
	if hub == nil {
		a.mistakes.add(entry.at, "kind %s has no hub type in %s, which +k8s:conversion-gen names; add the type there", entry.kind.Name.Name, strings.Join(p.hubs, ", "))
		return nil
	}
	if !a.follows(entry, hub, entry.route, true) {
		return nil
	}
	return hub
}

// follows checks that a route of the served types is one of the hub's.
func (a *api) follows(entry row, at *types.Type, r route, toField bool) bool {
	start := at
	for i, step := range r {
		for _, loop := range step.loops {
			if !a.follows(entry, at, loop, false) {
				return false
			}
		}
		member, ok := memberOf(at, step.member.Name)
		if !ok {
			a.mistakes.add(entry.at, "hub type %s has no field %s, which the way to the gated field leads through; add it", at, step.member.Name)
			return false
		}
		if toField && i == len(r)-1 {
			if at == step.at {
				return true
			}
			switch resolve(member.Type).Kind {
			case types.Pointer, types.Slice, types.Map:
				return true
			default:
				a.mistakes.add(entry.at, "field %s of hub type %s is of type %s, which cannot be absent; make it a pointer, a slice or a map", member.Name, at, member.Type.Name.Name)
				return false
			}
		}
		if at = structIn(member.Type); at == nil {
			a.mistakes.add(entry.at, "field %s of hub type %s leads to no struct, as that of the served type does; give it a corresponding type", member.Name, member.Type)
			return false
		}
	}
	if at != start {
		a.mistakes.add(entry.at, "the served type contains itself where hub type %s contains %s; make them alike", start, at)
		return false
	}
	return true
}

// checkModel sees to it that there is a name under which the field is published.
func (a *api) checkModel(entry row) {
	model := entry.route.model()
	for _, p := range a.packages {
		if p.Path == model.Name.Package && model.Methods["OpenAPIModelName"] == nil && len(docTags(p.Package, "k8s:openapi-model-package")) == 0 {
			a.mistakes.add(p.docs, "type %s has a gated field and no name in OpenAPI; add +k8s:openapi-model-package=NAME to doc.go and run openapi-gen with --output-model-name-file", model.Name.Name)
		}
	}
}
