// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOpenAPIV3(t *testing.T) {
	t.Parallel()
	for path := range sharedVersions(t) {
		t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
			t.Parallel()
			want, got := mustGet(t, kube, "/openapi/v3"+path).object, mustGet(t, annex, "/openapi/v3"+path).object
			compareMembers(t, member(want, "components", "schemas"), member(got, "components", "schemas"), nil)
			compareMembers(t, member(want, "paths"), member(got, "paths"), nil)
		})
	}
}

func TestOpenAPIV2(t *testing.T) {
	t.Parallel()
	want, got := mustGet(t, kube, "/openapi/v2").object, mustGet(t, annex, "/openapi/v2").object
	wantDefinitions, gotDefinitions := member(want, "definitions"), member(got, "definitions")
	// Every group has these kinds, and the two servers do not have the same groups.
	for _, kind := range []string{"DeleteOptions", "WatchEvent"} {
		for _, definitions := range []map[string]any{wantDefinitions, gotDefinitions} {
			delete(member(definitions, "io.k8s.apimachinery.pkg.apis.meta.v1."+kind), "x-kubernetes-group-version-kind")
		}
	}
	// kube-apiserver does not have what the extension apiserver adds, nor always the same custom kinds of other tests.
	own := func(name string) bool {
		return strings.Contains(name, "kube-annex") || strings.HasPrefix(name, "com.example.")
	}
	compareMembers(t, wantDefinitions, gotDefinitions, own)
	groups, versions := groupsOf(t, kube), versionsOf(t, kube)
	compareMembers(t, member(want, "paths"), member(got, "paths"), func(path string) bool {
		parts := strings.SplitN(path, "/", 5)
		switch {
		case len(parts) < 4 || parts[1] != "apis":
			return false
		case parts[3] == "":
			return !slices.Contains(groups, parts[2])
		}
		return versions[strings.Join(parts[:4], "/")] == ""
	})
}

// compareMembers wants all that we have to be the same in kube-apiserver, but for what is our own.
func compareMembers(t *testing.T, want, got map[string]any, own func(name string) bool) {
	t.Helper()
	if len(got) == 0 {
		t.Error("there is nothing to compare")
	}
	for name := range got {
		if own != nil && own(name) {
			continue
		}
		if diff := cmp.Diff(want[name], got[name]); diff != "" {
			t.Errorf("%s (-kube-apiserver,+annex):\n%.3000s", name, diff)
		}
	}
}

func member(of map[string]any, names ...string) map[string]any {
	for _, name := range names {
		of, _ = of[name].(map[string]any)
	}
	return of
}
