// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

const module = "example.org/house"

// imports builds a graph from lines "a: b c". Names without a dot are folders of the module.
func imports(lines ...string) graph {
	full := func(name string) string {
		if strings.Contains(name, ".") {
			return name
		}
		return module + "/" + name
	}
	g := graph{}
	for _, line := range lines {
		pkg, deps, _ := strings.Cut(line, ":")
		g[full(pkg)] = nil
		for _, dep := range strings.Fields(deps) {
			g[full(pkg)] = append(g[full(pkg)], full(dep))
		}
	}
	return g
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		graph graph
		// want holds the start of each finding; none means that the graph is fine.
		want []string
	}{
		"a house in order": {
			graph: imports(
				"apis/node: k8s.io/apimachinery/pkg/runtime",
				"apis/node/v1alpha1: apis/node k8s.io/api/core/v1",
				"generated/clientset: apis/node/v1alpha1 k8s.io/client-go/rest",
				"featuregate: apis/node/v1alpha1 generated/clientset",
				"registry/node: apis/node apis/node/validation k8s.io/apiserver/pkg/registry/rest",
				"apis/node/validation: apis/node",
				"controllers/balloon: apis/node/v1alpha1 generated/clientset featuregate controllers/leadership",
				"controllers/leadership: k8s.io/client-go/rest",
				"server/extension: registry/node apis/node server/etcd controllers/balloon generated/clientset",
				"server/etcd: k8s.io/apiserver/pkg/storage",
				"server/controlplane/controllers/namespaces: controllers/leadership k8s.io/apiserver/pkg/authentication/user",
				"cmd/annex: server/extension",
				"artifacts/examples/typed-client: generated/clientset",
				"test/harness: server/extension registry/node cmd/annex",
				"k8s.io/client-go/rest: k8s.io/apimachinery/pkg/runtime",
			),
		},
		"apis import the server library": {
			graph: imports("apis/node: k8s.io/apiserver/pkg/registry/rest"),
			want:  []string{"apis/node → k8s.io/apiserver/pkg/registry/rest: apis/ must not reach"},
		},
		"apis reach client-go through somebody else's library": {
			graph: imports("apis/node: example.com/lib", "example.com/lib: k8s.io/client-go/rest"),
			want:  []string{"apis/node → example.com/lib → k8s.io/client-go/rest: apis/ must not reach"},
		},
		"apis import generated code": {
			graph: imports("apis/node: generated/listers"),
			want: []string{
				"apis/node → generated/listers: not among what apis/ may import",
				"apis/node → generated/listers: apis/ must not reach",
			},
		},
		"generated code imports a library that imports storage": {
			graph: imports("generated/clientset: featuregate", "featuregate: registry/node", "registry/node:"),
			want: []string{
				"featuregate → registry/node: not among",
				"featuregate → registry/node: featuregate/ must not reach",
				"generated/clientset → featuregate: not among",
				"generated/clientset → featuregate → registry/node: generated/ must not reach",
			},
		},
		"a library for others reaches the server library": {
			graph: imports("clusteridentity: example.com/lib", "example.com/lib: k8s.io/apiserver/pkg/server"),
			want:  []string{"clusteridentity → example.com/lib → k8s.io/apiserver/pkg/server: clusteridentity/ must not reach"},
		},
		"storage uses a generated client": {
			graph: imports("registry/node: generated/clientset"),
			want: []string{
				"registry/node → generated/clientset: not among",
				"registry/node → generated/clientset: registry/ must not reach",
			},
		},
		"a controller uses hub types": {
			graph: imports("controllers/balloon: apis/node"),
			want:  []string{"controllers/balloon → apis/node: not among"},
		},
		"a controller uses validation": {
			graph: imports("controllers/balloon: apis/node/validation"),
			want:  []string{"controllers/balloon → apis/node/validation: not among"},
		},
		"a controller reaches hub types through conversion, which is fine": {
			graph: imports("controllers/balloon: apis/node/v1alpha1", "apis/node/v1alpha1: apis/node"),
		},
		"a controller reaches storage through another package": {
			graph: imports("controllers/balloon: featuregate", "featuregate: example.com/lib", "example.com/lib: registry/node"),
			want: []string{
				"controllers/balloon → featuregate → example.com/lib → registry/node: controllers/ must not reach",
				"featuregate → example.com/lib → registry/node: featuregate/ must not reach",
			},
		},
		"the control plane's controllers have stricter rules than the server": {
			graph: imports("server/controlplane/controllers/rbac: registry/native/rbac", "server/controlplane: registry/native/rbac"),
			want: []string{
				"server/controlplane/controllers/rbac → registry/native/rbac: not among",
				"server/controlplane/controllers/rbac → registry/native/rbac: server/controlplane/controllers/ must not reach",
			},
		},
		"the server imports test code": {
			graph: imports("server/up: test/harness"),
			want:  []string{"server/up → test/harness: not among", "server/up → test/harness: server/ must not reach"},
		},
		"an example imports the server": {
			graph: imports("artifacts/examples/typed-client: server/etcd"),
			want:  []string{"artifacts/examples/typed-client → server/etcd: not among", "artifacts/examples/typed-client → server/etcd: artifacts/ must not reach"},
		},
		"even a test helper must not use k8s.io/kubernetes": {
			graph: imports("test/harness: example.com/lib", "example.com/lib: k8s.io/kubernetes/pkg/apis/core"),
			want:  []string{"test/harness → example.com/lib → k8s.io/kubernetes/pkg/apis/core: only the nested modules"},
		},
		"names that only begin like a forbidden one": {
			graph: imports("apis/node: k8s.io/apiserver-network-proxy/x k8s.io/kubernetes-csi.io/y"),
		},
		"a folder without a room": {
			graph: imports("attic:"),
			want:  []string{"example.org/house/attic is in no room"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := check(rooms, module, tc.graph)
			ok := len(got) == len(tc.want)
			for i := 0; ok && i < len(got); i++ {
				ok = strings.HasPrefix(got[i], tc.want[i])
			}
			if !ok {
				t.Errorf("findings:\n%s\nwant these beginnings:\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

// TestRunReadsAModule runs the whole program over a small module that breaks one rule.
func TestRunReadsAModule(t *testing.T) {
	t.Parallel()
	got, err := run("testdata/house")
	if err != nil {
		t.Fatal(err)
	}
	want := "controllers/clock → featuregate → server/clock: controllers/ must not reach server/clock"
	for _, finding := range got {
		if strings.HasPrefix(finding, want) {
			return
		}
	}
	t.Errorf("findings:\n%s\nwant one that begins: %s", strings.Join(got, "\n"), want)
}
