// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// source is what is read from the files of a package themselves: gengo's types do not tell where they come from.
type source struct {
	// fields are the markers of the fields of the package's structs.
	fields map[fieldName][]marker
	// stray are markers that belong to no field, with the reason.
	stray []stray
	// docs is where doc.go begins, or the folder if there is none.
	docs token.Position
}

type fieldName struct {
	structName, goName string
}

// marker is a comment line that begins with +featureGate, in any spelling.
type marker struct {
	text string
	at   token.Position
}

type stray struct {
	marker
	reason string
}

// readSource finds every marker in the files that belong to the package in a folder.
func readSource(dir string) (*source, error) {
	out := &source{fields: map[fieldName][]marker{}, docs: token.Position{Filename: filepath.Join(dir, "doc.go"), Line: 1}}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if ours, err := build.Default.MatchFile(dir, filepath.Base(name)); err != nil || !ours {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		out.read(fset, file)
	}
	return out, nil
}

func (s *source) read(fset *token.FileSet, file *ast.File) {
	taken := map[*ast.CommentGroup]bool{}
	reasons := map[*ast.CommentGroup]string{}
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		const notATypes = "it stands at a type, and only fields can be gated; put it above a field"
		reasons[general.Doc] = notATypes
		for _, spec := range general.Specs {
			spec := spec.(*ast.TypeSpec)
			reasons[spec.Doc] = notATypes
			structure, isStruct := spec.Type.(*ast.StructType)
			if !isStruct {
				continue
			}
			for _, field := range structure.Fields.List {
				reasons[field.Comment] = "it stands behind the field; put it into the comment above the field"
				if field.Doc == nil {
					continue
				}
				taken[field.Doc] = true
				for _, found := range markersOf(fset, field.Doc) {
					for _, name := range goNames(field) {
						key := fieldName{structName: spec.Name.Name, goName: name}
						s.fields[key] = append(s.fields[key], found)
					}
				}
			}
		}
	}
	for _, group := range file.Comments {
		if taken[group] {
			continue
		}
		reason := reasons[group]
		if reason == "" {
			reason = "it belongs to no field of a named struct; put it into the comment right above the field, with no empty line between"
		}
		for _, found := range markersOf(fset, group) {
			s.stray = append(s.stray, stray{marker: found, reason: reason})
		}
	}
}

func markersOf(fset *token.FileSet, group *ast.CommentGroup) []marker {
	var out []marker
	for _, comment := range group.List {
		at := fset.Position(comment.Pos())
		for i, line := range strings.Split(comment.Text, "\n") {
			line = strings.TrimSpace(strings.TrimSuffix(strings.TrimLeft(line, "/*\t "), "*/"))
			if isMarker(line) {
				out = append(out, marker{text: line, at: token.Position{Filename: at.Filename, Line: at.Line + i}})
			}
		}
	}
	return out
}

// goNames returns the names that a declaration of fields gives them; an embedded one has its type's.
func goNames(field *ast.Field) []string {
	var out []string
	for _, name := range field.Names {
		out = append(out, name.Name)
	}
	if len(out) > 0 {
		return out
	}
	embedded := field.Type
	if pointer, ok := embedded.(*ast.StarExpr); ok {
		embedded = pointer.X
	}
	switch embedded := embedded.(type) {
	case *ast.Ident:
		return []string{embedded.Name}
	case *ast.SelectorExpr:
		return []string{embedded.Sel.Name}
	default:
		return nil
	}
}
