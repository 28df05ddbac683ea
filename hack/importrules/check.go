// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A graph maps the import path of each package to the import paths of its imports.
type graph map[string][]string

// check returns the imports in the packages of module that break the rules, each as a chain of imports.
func check(layers []layer, module string, g graph) []string {
	// inside turns an import path of this module into a folder, and leaves others as they are.
	inside := func(pkg string) string { return strings.TrimPrefix(pkg, module+"/") }

	var findings []string
	for _, pkg := range slices.Sorted(maps.Keys(g)) {
		if !within(pkg, module) {
			continue
		}
		l, ok := layerOf(layers, inside(pkg))
		if !ok {
			findings = append(findings, fmt.Sprintf("%s is in no layer: list its folder in hack/importrules/layers.go", pkg))
			continue
		}
		findings = append(findings, checkDirect(l, module, pkg, g[pkg])...)
		for _, chain := range forbidden(g, pkg, func(dep string) bool {
			return anyCovers(l.never, inside(dep)) || anyCovers(forbiddenEverywhere, dep)
		}) {
			for i := range chain {
				chain[i] = inside(chain[i])
			}
			last := chain[len(chain)-1]
			if anyCovers(forbiddenEverywhere, last) {
				findings = append(findings, fmt.Sprintf("%s: only the nested modules under test/ may use %s", strings.Join(chain, " → "), kubernetes))
				continue
			}
			findings = append(findings, fmt.Sprintf("%s: %s/ must not reach %s, because %s", strings.Join(chain, " → "), l.dir, last, l.why))
		}
	}
	return findings
}

// checkDirect returns the imports of one package that the list of its layer does not allow.
func checkDirect(l layer, module, pkg string, imports []string) []string {
	var findings []string
	for _, dep := range imports {
		dir, ours := strings.CutPrefix(dep, module+"/")
		if !ours || l.unrestricted || within(dir, l.dir) || anyCovers(l.imports, dir) {
			continue
		}
		findings = append(findings, fmt.Sprintf("%s → %s: not in the list of imports of %s/ (%s), because %s",
			strings.TrimPrefix(pkg, module+"/"), dir, l.dir, strings.Join(l.imports, ", "), l.why))
	}
	return findings
}

// forbidden walks everything that start reaches and returns the shortest chain to each forbidden
// package, without going through it.
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
