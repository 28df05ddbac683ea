// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTableIsMarkdown(t *testing.T) {
	t.Parallel()
	want := "| work | figure |\n|---|---|\n| create | 1.5× |\n"
	if diff := cmp.Diff(want, Table([]string{"work", "figure"}, [][]string{{"create", "1.5×"}})); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestReplaceWritesBetweenTheMarkersOnly(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "README.md")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n<!-- begin a -->\nold\n<!-- end a -->\nbetween\n<!-- begin b -->\nkept\n<!-- end b -->\n")
	for range 2 { // Once more changes nothing.
		if err := Replace(file, "a", "new\n"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := "before\n<!-- begin a -->\n\nnew\n\n<!-- end a -->\nbetween\n<!-- begin b -->\nkept\n<!-- end b -->\n"
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Fatalf("(-want,+got):\n%s", diff)
		}
	}
	for name, tc := range map[string]struct{ content, want string }{
		"no begin": {content: "nothing", want: "has no line"},
		"no end":   {content: "<!-- begin a -->\nold\n", want: "after"},
	} {
		write(tc.content)
		if err := Replace(file, "a", "new"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got the error %v, want one with %q", name, err, tc.want)
		}
	}
}
