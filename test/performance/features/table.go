// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
)

// table is what was measured, in order.
type table struct{ rows [][3]string }

// add notes a figure and what is promised about it; bound may be empty.
func (t *table) add(what, bound, format string, values ...any) {
	figure := fmt.Sprintf(format, values...)
	progress("%s: %s", what, figure)
	t.rows = append(t.rows, [3]string{what, bound, figure})
}

func (t *table) print(out io.Writer) error {
	var b strings.Builder
	b.WriteString("| | promised | measured |\n|---|---|---|\n")
	for _, row := range t.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row[:], " | "))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
