// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUpstreamFiltersAreListed fails if the generic apiserver gains, loses or reorders a filter: decide where ours belong, and change the
// comment of withUpstream.
func TestUpstreamFiltersAreListed(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/server").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	ast.Inspect(function(t, filepath.Join(strings.TrimSpace(string(out)), "config.go"), "DefaultBuildHandlerChain").Body, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(selector.Sel.Name, "With") {
				want = append(want, selector.Sel.Name)
			}
		}
		return true
	})
	got := regexp.MustCompile(`With\w+`).FindAllString(function(t, "chain.go", "withUpstream").Doc.Text(), -1)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 20 {
		t.Errorf("filters of upstream (-want,+got):\n%s", diff)
	}
}

func function(t *testing.T, file, name string) *ast.FuncDecl {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range parsed.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Name.Name == name {
			return f
		}
	}
	t.Fatalf("%s has no function %s", file, name)
	return nil
}

// TestOnlyChainSetsTheHandlerChain finds other files of servers and commands that set BuildHandlerChainFunc.
func TestOnlyChainSetsTheHandlerChain(t *testing.T) {
	t.Parallel()
	found := 0
	look := func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || filepath.Base(path) == "chain_test.go" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(content), "BuildHandlerChainFunc") {
			return err
		}
		if found++; path != "../../internal/filters/chain.go" {
			t.Errorf("%s sets BuildHandlerChainFunc; add a filter to server/internal/filters/chain.go", path)
		}
		return nil
	}
	for _, dir := range []string{"../..", "../../../cmd"} {
		if err := filepath.WalkDir(dir, look); err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("found no file that sets the handler chain")
	}
}
