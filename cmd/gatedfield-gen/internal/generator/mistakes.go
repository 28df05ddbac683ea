// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"cmp"
	"errors"
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"slices"
)

// mistakes are what an API's authors have to repair.
type mistakes struct {
	list []mistake
}

type mistake struct {
	at   token.Position
	text string
}

func (m *mistakes) add(at token.Position, format string, args ...any) {
	found := mistake{at: at, text: fmt.Sprintf(format, args...)}
	// A type that is reached in several ways is wrong only once.
	if !slices.Contains(m.list, found) {
		m.list = append(m.list, found)
	}
}

// err returns all mistakes in the order of the source, or nil.
func (m *mistakes) err() error {
	slices.SortFunc(m.list, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.text, b.text))
	})
	errs := make([]error, 0, len(m.list))
	for _, found := range m.list {
		errs = append(errs, fmt.Errorf("%s:%d: %s", fromHere(found.at.Filename), found.at.Line, found.text))
	}
	return errors.Join(errs...)
}

// fromHere returns a path as people in the current directory write it, if the file is below that.
func fromHere(name string) string {
	here, err := os.Getwd()
	if err != nil {
		return name
	}
	relative, err := filepath.Rel(here, name)
	if err != nil || !filepath.IsLocal(relative) {
		return name
	}
	return filepath.ToSlash(relative)
}
