// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/gengo/v2/types"

	"github.com/kube-annex/annex/apis/gatedfield"
)

const (
	metaPackage   = "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeObject = "k8s.io/apimachinery/pkg/runtime.Object"
)

// hop is one step of a route: at a struct, through a field.
type hop struct {
	at     *types.Type
	member types.Member
	// loops are the routes that lead from the struct back to it.
	loops []route
}

// route leads from a struct to a gated field, whose hop is the last, or back to where it began.
type route []hop

// row is one entry of a table.
type row struct {
	*mark
	kind  *types.Type
	hub   *types.Type
	route route
}

// table is what is generated for one package.
type table struct {
	*apiPackage
	group string
	rows  []row
}

// tables finds the gated fields of all kinds.
func (a *api) tables() []table {
	var out []table
	for _, p := range a.packages {
		t := table{apiPackage: p}
		groups := docTags(p.Package, "groupName")
		if len(groups) > 0 {
			t.group = groups[0]
		}
		for _, name := range slices.Sorted(maps.Keys(p.Types)) {
			if kind := p.Types[name]; isKind(kind) && servedVersion.MatchString(p.Name) {
				t.rows = append(t.rows, a.rowsOf(p, kind)...)
			}
		}
		if len(t.rows) > 0 && len(groups) == 0 {
			a.mistakes.add(p.docs, "package %s has gated fields and no group; add +groupName=NAME to its doc.go", p.Path)
		}
		out = append(out, t)
	}
	for name, m := range a.marks {
		if !m.reached {
			a.mistakes.add(m.at, "field %s of %s is in no kind that the generator is run on (a kind has TypeMeta, ObjectMeta and DeepCopyObject, in a package named like v1alpha1); remove the marker, or name the kind's package too",
				name.goName, name.structName)
		}
	}
	return out
}

// isKind tells whether objects of the type are served.
func isKind(t *types.Type) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(t.Members, func(m types.Member) bool {
			return m.Embedded && m.Type.Name == types.Name{Package: metaPackage, Name: name}
		})
	}
	if t.Kind != types.Struct || !has("TypeMeta") || !has("ObjectMeta") {
		return false
	}
	return t.Methods["DeepCopyObject"] != nil || slices.ContainsFunc(slices.Concat(t.SecondClosestCommentLines, t.CommentLines), func(line string) bool {
		interfaces, ok := strings.CutPrefix(strings.TrimSpace(line), "+k8s:deepcopy-gen:interfaces=")
		return ok && slices.Contains(strings.Split(interfaces, ","), runtimeObject)
	})
}

// rowsOf finds the gated fields of one kind.
func (a *api) rowsOf(p *apiPackage, kind *types.Type) []row {
	within := a.closure(kind)
	a.checkOutside(p, kind, within)
	w := walker{api: a, leads: a.leading(within)}
	var out []row
	for _, r := range w.routes(kind, nil) {
		last := r[len(r)-1]
		found := a.markOf(last.at, last.member)
		found.reached = true
		entry := row{mark: found, kind: kind, route: r}
		if len(p.hubs) > 0 {
			entry.hub = a.hubOf(p, entry)
		}
		a.checkModel(entry)
		out = append(out, entry)
	}
	return out
}

// closure returns all structs that an object of a kind may contain, the kind included, in the order of the source.
func (a *api) closure(kind *types.Type) []*types.Type {
	out := []*types.Type{kind}
	for i := 0; i < len(out); i++ {
		for _, member := range out[i].Members {
			if t := structIn(member.Type); t != nil && serialized(member) && !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	return out
}

// leading returns those of the structs from which a route leads to a gated field.
func (a *api) leading(within []*types.Type) map[*types.Type]bool {
	leads := map[*types.Type]bool{}
	for grows := true; grows; {
		grows = false
		for _, t := range within {
			if leads[t] {
				continue
			}
			leads[t] = slices.ContainsFunc(t.Members, func(m types.Member) bool {
				return serialized(m) && (a.markOf(t, m) != nil || leads[structIn(m.Type)])
			})
			grows = grows || leads[t]
		}
	}
	return leads
}

// walker finds routes in one kind.
type walker struct {
	*api
	leads map[*types.Type]bool
}

// routes returns the ways from a struct to every gated field that do not come by the structs in avoid, nor by one struct twice.
func (w *walker) routes(from *types.Type, avoid []*types.Type) []route {
	var out []route
	loops := w.loops(from, from, avoid)
	passed := append(slices.Clone(avoid), from)
	for _, member := range from.Members {
		if !serialized(member) {
			continue
		}
		step := hop{at: from, member: member, loops: loops}
		if w.markOf(from, member) != nil {
			out = append(out, route{step})
		}
		next := structIn(member.Type)
		if next == nil || !w.leads[next] || slices.Contains(passed, next) {
			continue
		}
		for _, rest := range w.routes(next, passed) {
			out = append(out, append(route{step}, rest...))
		}
	}
	return out
}

// loops returns the ways from a struct to the target that do not come by the structs in avoid.
func (w *walker) loops(from, target *types.Type, avoid []*types.Type) []route {
	var out []route
	var own []route
	if from != target {
		own = w.loops(from, from, avoid)
	}
	passed := append(slices.Clone(avoid), from)
	for _, member := range from.Members {
		step := hop{at: from, member: member, loops: own}
		next := structIn(member.Type)
		switch {
		case !serialized(member):
		case next == target:
			out = append(out, route{step})
		case next == nil || !w.leads[next] || slices.Contains(passed, next):
		default:
			for _, rest := range w.loops(next, target, passed) {
				out = append(out, append(route{step}, rest...))
			}
		}
	}
	return out
}

// path returns the route in JSON names.
func (r route) path() []string {
	var out []string
	for i, step := range r {
		out = append(out, step.steps(i == len(r)-1)...)
	}
	return out
}

// pattern returns the route with its loops, or nil if it has none.
func (r route) pattern() []string {
	if !slices.ContainsFunc(r, func(h hop) bool { return len(h.loops) > 0 }) {
		return nil
	}
	return r.withLoops(true)
}

func (r route) withLoops(toField bool) []string {
	var out []string
	for i, step := range r {
		for j, loop := range step.loops {
			out = append(out, map[bool]string{true: gatedfield.LoopBegin, false: gatedfield.LoopOr}[j == 0])
			out = append(out, loop.withLoops(false)...)
		}
		if len(step.loops) > 0 {
			out = append(out, gatedfield.LoopEnd)
		}
		out = append(out, step.steps(toField && i == len(r)-1)...)
	}
	return out
}

// steps are those to the struct in the hop's field, or to the field itself.
func (h hop) steps(toField bool) []string {
	if toField {
		return stepsTo(h.member)[:1]
	}
	return stepsTo(h.member)
}

// model returns the struct whose OpenAPI model has the route's field as a property.
func (r route) model() *types.Type {
	i := len(r) - 1
	for i > 0 && inlined(r[i-1].member) {
		i--
	}
	return r[i].at
}
