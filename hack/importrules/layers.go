// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path"
	"strings"
)

// A layer is a folder of this module with its own import rules. The rules hold for the folders below it, unless a folder is a layer
// itself.
type layer struct {
	// dir is the folder, relative to the module.
	dir string
	// imports lists the packages of this module that packages of the layer may import, besides those of the layer.
	imports []string
	// unrestricted lifts the list: the layer may import every other one.
	unrestricted bool
	// never lists the packages that packages of the layer must not reach, neither directly nor through others.
	never []string
	// why is printed with every finding.
	why string
}

// Patterns in imports and never are folders of this module, or import paths whose first element
// has a dot. They cover everything below them, and "*" stands for one path element or a part of it.
// A final "$" means this package and nothing below.
const (
	servedVersions = "apis/*/v[0-9]*$"
	fencing        = "apis/fencing$"
	gatedFields    = "apis/gatedfield$"
	kubernetes     = "k8s.io/kubernetes"
	apiserver      = "k8s.io/apiserver"
	clientGo       = "k8s.io/client-go"
	prometheus     = "github.com/prometheus"
)

var layers = []layer{
	{
		dir:   "apis",
		never: []string{apiserver, clientGo, "generated", "registry", "controllers", "server"},
		why:   "apis/ defines the API, and every client imports it; behaviour belongs to registry/, controllers/ and server/",
	},
	{
		dir:     "generated",
		imports: []string{"apis"},
		never:   []string{apiserver, "registry", "controllers", "server"},
		why:     "generated/ is what other projects import; it depends on apis/ alone",
	},
	{
		dir:   "internal",
		never: []string{apiserver, "generated", "registry", "controllers", "server"},
		why:   "internal/ holds what several top-level folders share and none promises; it knows none of them",
	},
	{
		dir:     "featuregate",
		imports: []string{servedVersions, gatedFields, "generated", "internal"},
		never:   []string{apiserver, "registry", "controllers", "server"},
		why:     "featuregate/ is a library for other projects and a client of the API like any other; its dependencies stay few",
	},
	{
		dir:     "clusteridentity",
		imports: []string{servedVersions, "generated"},
		never:   []string{apiserver, prometheus, "registry", "controllers", "server"},
		why:     "clusteridentity/ is a library for other projects and a client of the API like any other; its dependencies stay few",
	},
	{
		dir:     "clusteridentity/metrics",
		imports: []string{"clusteridentity$"},
		never:   []string{apiserver, "registry", "controllers", "server"},
		why:     "clusteridentity/metrics is for programs that have Prometheus' library anyway, and adds nothing to it",
	},
	{
		dir:     "registry",
		imports: []string{"apis"},
		never:   []string{"generated", "controllers", "server"},
		why:     "registry/ defines how the API is stored; it must not depend on the servers or on clients",
	},
	{
		dir:     "controllers",
		imports: []string{servedVersions, fencing, "generated", "featuregate", "internal"},
		never:   []string{apiserver, "registry", "server"},
		why:     "controllers/ are clients of the API: served versions and typed clients, never storage or hub types",
	},
	{
		dir:     "server/controlplane/internal/controllers",
		imports: []string{"controllers/leadership", "internal", "server/controlplane/internal/aggregator/remoteservers"},
		never:   []string{"registry"},
		why:     "the control plane's controllers are clients of its API and never read its storage",
	},
	{
		dir:     "server",
		imports: []string{"apis", "generated", "featuregate", "clusteridentity", "registry", "controllers", "internal"},
		never:   []string{"cmd", "test"},
		why:     "server/ is built from the layers below; programs and tests stand above it",
	},
	{
		dir:     "cmd",
		imports: []string{"apis", "generated", "featuregate", "clusteridentity", "registry", "controllers", "server"},
		never:   []string{"test", "hack"},
		why:     "cmd/ is what we ship; test and build programs stay out of it",
	},
	{
		dir:     "artifacts",
		imports: []string{servedVersions, "generated", "featuregate", "clusteridentity", "controllers/leadership"},
		never:   []string{apiserver, "registry", "server"},
		why:     "programs under artifacts/examples show how to use the libraries for clients, so they import nothing else",
	},
	{
		dir:     "artifacts/examples/minimal-controlplane",
		imports: []string{"registry/native", "registry/resource", "server/controlplane", "server/etcd"},
		why:     "it shows how to embed a control plane, so it imports the libraries for that and nothing else",
	},
	{dir: "hack", unrestricted: true, why: "hack/ holds the programs behind make"},
	{dir: "test", unrestricted: true, why: "test/ holds tests of everything"},
}

// forbiddenEverywhere lists packages that no layer may reach.
var forbiddenEverywhere = []string{kubernetes}

// layerOf returns the innermost layer that holds the package with this folder.
func layerOf(layers []layer, dir string) (layer, bool) {
	var innermost layer
	for _, l := range layers {
		if within(dir, l.dir) && len(l.dir) > len(innermost.dir) {
			innermost = l
		}
	}
	return innermost, innermost.dir != ""
}

// within reports whether a slash-separated path lies in, or is, the given folder.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}

// covers reports whether pattern covers p.
func covers(pattern, p string) bool {
	pattern, exact := strings.CutSuffix(pattern, "$")
	elements, wanted := strings.Split(p, "/"), strings.Count(pattern, "/")+1
	if len(elements) < wanted || exact && len(elements) != wanted {
		return false
	}
	ok, err := path.Match(pattern, strings.Join(elements[:wanted], "/"))
	return err == nil && ok
}

func anyCovers(patterns []string, p string) bool {
	for _, pattern := range patterns {
		if covers(pattern, p) {
			return true
		}
	}
	return false
}
