// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path"
	"strings"
)

// A room is a folder of this module with rules of its own about what may be imported. Folders
// below it belong to it, unless they are listed as a room themselves.
type room struct {
	// dir is the folder, relative to the module.
	dir string
	// imports lists what of this module packages of the room may import, besides the room itself.
	imports []string
	// anything lifts the list: the room may import every other one.
	anything bool
	// never lists what packages of the room must not reach, neither directly nor through others.
	never []string
	// why is printed with every finding.
	why string
}

// Patterns in imports and never: a folder of this module, or an import path whose first element
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

// rooms is who may import whom.
var rooms = []room{
	{
		dir:   "apis",
		never: []string{apiserver, clientGo, "generated", "registry", "controllers", "server"},
		why:   "apis/ says what the API is, so that anyone can import it; behaviour belongs to registry/, controllers/ and server/",
	},
	{
		dir:     "generated",
		imports: []string{"apis"},
		never:   []string{apiserver, "registry", "controllers", "server"},
		why:     "generated/ is what other projects import; it depends on apis/ alone",
	},
	{
		dir:     "featuregate",
		imports: []string{servedVersions, gatedFields, "generated"},
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
		why:     "registry/ says how the API is stored; it must not know who serves it or who acts on it",
	},
	{
		dir:     "controllers",
		imports: []string{servedVersions, fencing, "generated", "featuregate"},
		never:   []string{apiserver, "registry", "server"},
		why:     "controllers/ are clients of the API: served versions and typed clients, never storage or hub types",
	},
	{
		dir:     "server/controlplane/controllers",
		imports: []string{"controllers/leadership"},
		never:   []string{"registry"},
		why:     "the control plane's controllers talk to its API through clients, never to its storage",
	},
	{
		dir:     "server",
		imports: []string{"apis", "generated", "featuregate", "clusteridentity", "registry", "controllers"},
		never:   []string{"cmd", "test"},
		why:     "server/ puts the other rooms together; programs and tests stand above it",
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
		why:     "programs under artifacts/examples show what a user of the libraries writes, so they use nothing else",
	},
	{
		dir:     "artifacts/examples/minimal-controlplane",
		imports: []string{"registry/native", "registry/resource", "server/controlplane", "server/etcd", "server/options", "server/pki"},
		why:     "it shows what a program with a control plane of its own writes, and uses the libraries for that alone",
	},
	{dir: "hack", anything: true, why: "hack/ holds the programs behind make"},
	{dir: "test", anything: true, why: "test/ holds tests of everything"},
}

// nobody lists what no room may reach.
var nobody = []string{kubernetes}

// roomOf returns the innermost room that holds the package with this folder.
func roomOf(rooms []room, dir string) (room, bool) {
	var found room
	for _, r := range rooms {
		if within(dir, r.dir) && len(r.dir) > len(found.dir) {
			found = r
		}
	}
	return found, found.dir != ""
}

// within tells whether a slash-separated path lies in, or is, the given folder.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}

// covered tells whether pattern covers p.
func covered(p, pattern string) bool {
	pattern, exact := strings.CutSuffix(pattern, "$")
	elements, wanted := strings.Split(p, "/"), strings.Count(pattern, "/")+1
	if len(elements) < wanted || exact && len(elements) != wanted {
		return false
	}
	ok, err := path.Match(pattern, strings.Join(elements[:wanted], "/"))
	return err == nil && ok
}

func coveredByAny(p string, patterns []string) (string, bool) {
	for _, pattern := range patterns {
		if covered(p, pattern) {
			return pattern, true
		}
	}
	return "", false
}
