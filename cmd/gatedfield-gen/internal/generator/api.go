// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	gengogenerator "k8s.io/gengo/v2/generator"
	"k8s.io/gengo/v2/types"

	"github.com/kube-annex/annex/apis/gatedfield"
)

const gatesModule = "k8s.io/component-base/featuregate"

var servedVersion = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// api is the packages that the generator is run on, with what else it has to know.
type api struct {
	universe types.Universe
	packages []*apiPackage
	// marks are the gated fields of all packages.
	marks map[memberName]*mark
	// sources are the files of packages that are not generated for, by import path.
	sources  map[string]*source
	mistakes mistakes
}

type apiPackage struct {
	*types.Package
	*source
	// hubs are the packages that this one is converted to; the first that has a kind has its hub.
	hubs []string
	// gatesPackage is the import path of what registers the gates; gates are their names.
	gatesPackage string
	gates        []string
}

type memberName struct {
	packagePath string
	fieldName
}

// mark is a gated field, wherever it is.
type mark struct {
	marker
	gate    string
	whenOff gatedfield.Policy
	reached bool
}

// load reads all packages and the markers in them. Its error is what keeps it from reading; what is wrong with the markers is among
// the mistakes.
func load(context *gengogenerator.Context, gatesPackage string) (*api, error) {
	a := &api{marks: map[memberName]*mark{}, sources: map[string]*source{}}
	for _, path := range slices.Sorted(slices.Values(context.Inputs)) {
		described := context.Universe.Package(path)
		src, err := readSource(described.Dir)
		if err != nil {
			return nil, err
		}
		p := &apiPackage{Package: described, source: src, gatesPackage: gatesPackage}
		for _, hub := range docTags(described, "k8s:conversion-gen") {
			if hub != "false" && hub != path {
				p.hubs = append(p.hubs, hub)
			}
		}
		if own := docTags(described, gatesTag[1:]); len(own) > 0 {
			p.gatesPackage = own[0]
		}
		a.packages = append(a.packages, p)
	}
	if err := a.loadOthers(context); err != nil {
		return nil, err
	}
	a.universe = context.Universe
	for _, p := range a.packages {
		a.readMarkers(p)
	}
	return a, a.readHubs()
}

// loadOthers loads the packages of hubs and gates.
func (a *api) loadOthers(context *gengogenerator.Context) error {
	needed := map[string]*apiPackage{}
	for _, p := range a.packages {
		for _, hub := range p.hubs {
			needed[hub] = p
		}
		if len(p.fields) > 0 && p.gatesPackage != "" {
			needed[p.gatesPackage] = p
		}
	}
	if len(needed) == 0 {
		return nil
	}
	if _, err := context.LoadPackages(slices.Sorted(maps.Keys(needed))...); err != nil {
		// Each alone tells which one it is, and who wants it.
		for path, wanted := range needed {
			if _, reason := context.LoadPackages(path); reason != nil {
				a.mistakes.add(wanted.docs, "package %s, which this one names for its hub or gates, cannot be loaded: %v", path, reason)
			}
		}
		if mistakes := a.mistakes.err(); mistakes != nil {
			return mistakes
		}
		return fmt.Errorf("loading the packages of hubs and gates: %w", err)
	}
	for _, p := range a.packages {
		p.gates = gatesOf(context.Universe[p.gatesPackage])
	}
	return nil
}

// gatesOf returns the feature gates that are constants of a package, sorted.
func gatesOf(p *types.Package) []string {
	if p == nil {
		return nil
	}
	var out []string
	for _, constant := range p.Constants {
		if constant.ConstValue != nil && constant.Underlying.Name == (types.Name{Package: gatesModule, Name: "Feature"}) {
			out = append(out, *constant.ConstValue)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// docTags returns the values of a marker in a package's doc.go.
func docTags(p *types.Package, name string) []string {
	var out []string
	for _, line := range p.Comments {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "+"+name+"="); ok {
			out = append(out, strings.TrimSpace(value))
		}
	}
	return out
}

// readMarkers checks all markers of a package, whether or not a kind has the fields.
func (a *api) readMarkers(p *apiPackage) {
	for _, found := range p.stray {
		a.mistakes.add(found.at, "%s gates nothing: %s", found.text, found.reason)
	}
	for name, markers := range p.fields {
		if !servedVersion.MatchString(p.Name) && slices.ContainsFunc(a.packages, func(other *apiPackage) bool { return slices.Contains(other.hubs, p.Path) }) {
			// The hub's own turn reports it.
			continue
		}
		if len(markers) > 1 {
			a.mistakes.add(markers[1].at, "field %s has a second marker; a field has one gate", name.goName)
		}
		gate, whenOff, errs := markers[0].parse()
		for _, err := range errs {
			a.mistakes.add(markers[0].at, "%v", err)
		}
		if gate != "" {
			a.checkGate(p, markers[0], gate)
		}
		member, ok := memberOf(p.Types[name.structName], name.goName)
		if !ok {
			a.mistakes.add(markers[0].at, "type %s cannot have gated fields; only structs without type parameters can", name.structName)
			continue
		}
		for _, text := range wrongWith(member) {
			a.mistakes.add(markers[0].at, "gated field %s %s", name.goName, text)
		}
		a.marks[memberName{p.Path, name}] = &mark{marker: markers[0], gate: gate, whenOff: whenOff}
	}
}

func (a *api) checkGate(p *apiPackage, found marker, gate string) {
	switch {
	case p.gatesPackage == "":
		a.mistakes.add(found.at, "no package of feature gates is known; name it with --gates-package, or with +featureGates=PATH in doc.go")
	case slices.Contains(p.gates, gate):
	case len(p.gates) == 0:
		a.mistakes.add(found.at, "feature gate %s is not registered: package %s has no constants of the type %s.Feature", gate, p.gatesPackage, gatesModule)
	default:
		a.mistakes.add(found.at, "feature gate %s is not registered; package %s has %s: add a constant there, or correct the name",
			gate, p.gatesPackage, strings.Join(p.gates, ", "))
	}
}

// readHubs looks for markers where they have no effect.
func (a *api) readHubs() error {
	for _, p := range a.packages {
		for _, path := range p.hubs {
			if servedVersion.MatchString(a.universe.Package(path).Name) {
				continue
			}
			hub, err := a.sourceOf(path)
			if err != nil {
				return err
			}
			for name, markers := range hub.fields {
				a.mistakes.add(markers[0].at, "field %s is one of the hub's, where a marker gates nothing; put it at the served field, in package %s", name.goName, p.Path)
			}
		}
	}
	return nil
}

// sourceOf reads the files of a package.
func (a *api) sourceOf(path string) (*source, error) {
	for _, p := range a.packages {
		if p.Path == path {
			return p.source, nil
		}
	}
	if known, ok := a.sources[path]; ok {
		return known, nil
	}
	dir := a.universe.Package(path).Dir
	if dir == "" {
		return nil, errors.New("package " + path + " has no folder")
	}
	src, err := readSource(dir)
	if err != nil {
		return nil, err
	}
	a.sources[path] = src
	return src, nil
}

// markOf returns what gates a member, or nil.
func (a *api) markOf(owner *types.Type, member types.Member) *mark {
	return a.marks[memberName{owner.Name.Package, fieldName{owner.Name.Name, member.Name}}]
}
