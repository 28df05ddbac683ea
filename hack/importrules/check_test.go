// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

const module = "example.org/module"

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
		"imports that keep to the rules": {
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
				"server/controlplane/internal/controllers/namespace: controllers/leadership k8s.io/apiserver/pkg/authentication/user",
				"cmd/annex: server/extension",
				"artifacts/examples/typed-client: generated/clientset",
				"test/framework: server/extension registry/node cmd/annex",
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
				"apis/node → generated/listers: not in the list of imports of apis/",
				"apis/node → generated/listers: apis/ must not reach",
			},
		},
		"generated code imports a library that imports storage": {
			graph: imports("generated/clientset: featuregate", "featuregate: registry/node", "registry/node:"),
			want: []string{
				"featuregate → registry/node: not in the list",
				"featuregate → registry/node: featuregate/ must not reach",
				"generated/clientset → featuregate: not in the list",
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
				"registry/node → generated/clientset: not in the list",
				"registry/node → generated/clientset: registry/ must not reach",
			},
		},
		"a controller uses hub types": {
			graph: imports("controllers/balloon: apis/node"),
			want:  []string{"controllers/balloon → apis/node: not in the list"},
		},
		"a controller uses validation": {
			graph: imports("controllers/balloon: apis/node/validation"),
			want:  []string{"controllers/balloon → apis/node/validation: not in the list"},
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
			graph: imports("server/controlplane/internal/controllers/rbac: registry/native/rbac", "server/controlplane: registry/native/rbac"),
			want: []string{
				"server/controlplane/internal/controllers/rbac → registry/native/rbac: not in the list",
				"server/controlplane/internal/controllers/rbac → registry/native/rbac: server/controlplane/internal/controllers/ must not reach",
			},
		},
		"the server imports test code": {
			graph: imports("server/standalone: test/framework"),
			want:  []string{"server/standalone → test/framework: not in the list", "server/standalone → test/framework: server/ must not reach"},
		},
		"an example imports the server": {
			graph: imports("artifacts/examples/typed-client: server/etcd"),
			want:  []string{"artifacts/examples/typed-client → server/etcd: not in the list", "artifacts/examples/typed-client → server/etcd: artifacts/ must not reach"},
		},
		"even a test helper must not use k8s.io/kubernetes": {
			graph: imports("test/framework: example.com/lib", "example.com/lib: k8s.io/kubernetes/pkg/apis/core"),
			want:  []string{"test/framework → example.com/lib → k8s.io/kubernetes/pkg/apis/core: only the nested modules"},
		},
		"names that only begin like a forbidden one": {
			graph: imports("apis/node: k8s.io/apiserver-network-proxy/x k8s.io/kubernetes-csi.io/y"),
		},
		"a folder without a layer": {
			graph: imports("attic:"),
			want:  []string{"example.org/module/attic is in no layer"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := check(layers, module, tc.graph)
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

// TestRunReadsAModule runs the whole program over a small module that breaks one rule of imports and three of the public line.
func TestRunReadsAModule(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	ok, err := run("testdata/module", &out)
	if err != nil {
		t.Fatal(err)
	}
	if ok {
		t.Error("run found nothing")
	}
	for _, want := range []string{
		"controllers/clock → featuregate → server/clock: controllers/ must not reach server/clock",
		"controllers/clock: promise it in hack/importrules/public.go",
		"featuregate: Config names clock.Clock of server/clock, which is not promised",
		"featuregate: New names clock.Clock of server/clock, which is not promised",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("findings:\n%s\nwant one that begins: %s", out.String(), want)
		}
	}
	for _, unwanted := range []string{"server/clock: promise", "Alias names", "newClock names", "hidden"} {
		if strings.Contains(out.String(), unwanted) {
			t.Errorf("findings:\n%s\nwant none with: %s", out.String(), unwanted)
		}
	}
}

func TestPromisedPackagesAreListed(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if _, err := listPromised("testdata/module", &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "example.org/module/featuregate\n"; got != want {
		t.Errorf("promised packages are %q, want %q", got, want)
	}
}
