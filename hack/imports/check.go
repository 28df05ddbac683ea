// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A graph maps the import path of each package to the import paths of what it imports.
type graph map[string][]string

// check returns what breaks the rules in the packages of module, each with its chain of imports.
func check(rooms []room, module string, g graph) []string {
	// inside turns an import path of this module into a folder, and leaves others as they are.
	inside := func(pkg string) string { return strings.TrimPrefix(pkg, module+"/") }

	var findings []string
	for _, pkg := range slices.Sorted(maps.Keys(g)) {
		if !within(pkg, module) {
			continue
		}
		r, ok := roomOf(rooms, inside(pkg))
		if !ok {
			findings = append(findings, fmt.Sprintf("%s is in no room: list its folder in hack/imports/rooms.go", pkg))
			continue
		}
		findings = append(findings, checkDirect(r, module, pkg, g[pkg])...)
		for _, chain := range forbidden(g, pkg, func(dep string) bool {
			_, room := coveredByAny(inside(dep), r.never)
			_, all := coveredByAny(dep, nobody)
			return room || all
		}) {
			for i := range chain {
				chain[i] = inside(chain[i])
			}
			last := chain[len(chain)-1]
			if _, all := coveredByAny(last, nobody); all {
				findings = append(findings, fmt.Sprintf("%s: only the nested modules under test/ may use %s", strings.Join(chain, " → "), kubernetes))
				continue
			}
			findings = append(findings, fmt.Sprintf("%s: %s/ must not reach %s, because %s", strings.Join(chain, " → "), r.dir, last, r.why))
		}
	}
	return findings
}

// checkDirect returns the imports of one package that its room's list does not allow.
func checkDirect(r room, module, pkg string, imports []string) []string {
	var findings []string
	for _, dep := range imports {
		dir, ours := strings.CutPrefix(dep, module+"/")
		if !ours || r.anything || within(dir, r.dir) {
			continue
		}
		if _, allowed := coveredByAny(dir, r.imports); !allowed {
			findings = append(findings, fmt.Sprintf("%s → %s: not among what %s/ may import (%s), because %s",
				strings.TrimPrefix(pkg, module+"/"), dir, r.dir, strings.Join(r.imports, ", "), r.why))
		}
	}
	return findings
}

// forbidden walks everything that start reaches and returns the shortest chain to each forbidden
// package, without looking behind it.
func forbidden(g graph, start string, isForbidden func(string) bool) [][]string {
	var chains [][]string
	from := map[string]string{start: ""}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for _, dep := range g[queue[0]] {
			if _, seen := from[dep]; seen {
				continue
			}
			from[dep] = queue[0]
			if !isForbidden(dep) {
				queue = append(queue, dep)
				continue
			}
			chain := []string{}
			for p := dep; p != ""; p = from[p] {
				chain = append(chain, p)
			}
			slices.Reverse(chain)
			chains = append(chains, chain)
		}
	}
	return chains
}
