// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"os"
	"strings"
)

// Table writes a Markdown table.
func Table(head []string, rows [][]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}

// Replace puts text between the two markers of a name in a Markdown file: <!-- begin NAME --> and <!-- end NAME -->.
func Replace(file, name, text string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, found := strings.Cut(string(content), begin)
	if !found {
		return fmt.Errorf("%s has no line %q; put it where the text belongs", file, strings.TrimSpace(begin))
	}
	_, after, found := strings.Cut(rest, end)
	if !found {
		return fmt.Errorf("%s has no %q after %q; put it where the text ends", file, end, strings.TrimSpace(begin))
	}
	return os.WriteFile(file, []byte(before+begin+"\n"+strings.TrimSpace(text)+"\n\n"+end+after), 0o644)
}
