// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// promised lists the packages whose Go API is stable for other projects, as patterns of folders. hack/apidiff.sh compares them with the
// last release. Packages named internal and those that are listed in notPromised are no part of it.
var promised = []string{
	"apis",
	"generated",
	"featuregate",
	"clusteridentity",
	"controllers/leadership",
	"registry/resource",
	"server/controlplane",
	// The signatures of the packages above name types of these.
	"registry/native$",
	"server/etcd",
}

// notPromised lists packages below those of promised that only tests use.
var notPromised = []string{
	"apis/roundtriptest",
	"featuregate/lifecycletest",
	"registry/resource/resourcetest",
	"server/controlplane/controllertest",
}

// disclaimer is what the comment of a package has to contain that other folders import but other projects should not.
const disclaimer = "not a stable API"

func isPromised(dir string) bool {
	return anyCovers(promised, dir) && !anyCovers(notPromised, dir) && !isInternal(dir)
}

func isInternal(dir string) bool { return slices.Contains(strings.Split(dir, "/"), "internal") }

// checkPublic returns the packages below root that are neither promised, nor internal, nor disclaimed in their comment, and the exported
// declarations of promised packages that name a type of ours that is not promised.
func checkPublic(root, module string) ([]string, error) {
	var findings []string
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); file != root && (name == "testdata" || strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		dir, err := filepath.Rel(root, file)
		if err != nil {
			return fmt.Errorf("read folder %s: %w", file, err)
		}
		dir = filepath.ToSlash(dir)
		if l, ok := layerOf(layers, dir); !ok || l.dir == "hack" || l.dir == "test" || l.dir == "cmd" || within(l.dir, "artifacts") || isInternal(dir) {
			return nil
		}
		files, err := parseFolder(file)
		if err != nil || len(files) == 0 {
			return err
		}
		if !isPromised(dir) {
			if !slices.ContainsFunc(files, disclaims) {
				findings = append(findings, fmt.Sprintf("%s: promise it in hack/importrules/public.go, move it under an internal folder, or write %q into its package comment", dir, disclaimer))
			}
			return nil
		}
		for _, f := range files {
			findings = append(findings, unpromisedTypes(module, dir, f)...)
		}
		return nil
	})
	return findings, err
}

// parseFolder parses the Go files of a folder, without tests and generated files.
func parseFolder(dir string) ([]*ast.File, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_generated") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		files = append(files, f)
	}
	return files, nil
}

func disclaims(f *ast.File) bool {
	return f.Doc != nil && strings.Contains(strings.Join(strings.Fields(f.Doc.Text()), " "), disclaimer)
}

// unpromisedTypes returns the exported declarations of a file that name a type of a package that is not promised. An alias gives the type
// a promised name.
func unpromisedTypes(module, dir string, f *ast.File) []string {
	imports := map[string]string{}
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if dep, ours := strings.CutPrefix(p, module+"/"); ours && !isPromised(dep) {
			imports[name] = dep
		}
	}
	named := map[string]bool{}
	for declared, types := range exportedTypes(f) {
		for _, t := range types {
			ast.Inspect(t, func(n ast.Node) bool {
				if _, isBody := n.(*ast.BlockStmt); isBody {
					return false
				}
				if field, ok := n.(*ast.Field); ok && len(field.Names) > 0 && !slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) && isStructField(t, field) {
					return false
				}
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if pkg, ok := selector.X.(*ast.Ident); ok && pkg.Obj == nil && imports[pkg.Name] != "" {
					named[fmt.Sprintf("%s: %s names %s.%s of %s, which is not promised; declare an alias or promise the package", dir, declared, pkg.Name, selector.Sel.Name, imports[pkg.Name])] = true
				}
				return true
			})
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// exportedTypes returns the type expressions in the exported declarations of a file.
func exportedTypes(f *ast.File) map[string][]ast.Node {
	types := map[string][]ast.Node{}
	for _, declaration := range f.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
				types[d.Name.Name] = append(types[d.Name.Name], d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && !s.Assign.IsValid() {
						types[s.Name.Name] = append(types[s.Name.Name], s.Type)
					}
				case *ast.ValueSpec:
					if s.Type != nil && slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
						types[s.Names[0].Name] = append(types[s.Names[0].Name], s.Type)
					}
				}
			}
		}
	}
	return types
}

func exportedReceiver(receiver *ast.FieldList) bool {
	exported := false
	ast.Inspect(receiver.List[0].Type, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && !exported {
			exported = name.IsExported()
			return false
		}
		return true
	})
	return exported
}

// isStructField reports whether field is one of the struct t, and not a parameter of a function.
func isStructField(t ast.Node, field *ast.Field) bool {
	s, ok := t.(*ast.StructType)
	return ok && slices.Contains(s.Fields.List, field)
}
