// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package hack_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestFilesNamedByTheRequestPathExist checks the files and folders that docs/development/request-path.md names by their path.
func TestFilesNamedByTheRequestPathExist(t *testing.T) {
	content, err := os.ReadFile("../docs/development/request-path.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:controllers|hack|registry|server)/[\w./-]*\w`).FindAllString(string(content), -1)
	if len(named) < 20 {
		t.Fatalf("the document names %d files; its form has changed", len(named))
	}
	for _, name := range named {
		if _, err := os.Stat(filepath.Join("..", name)); err != nil {
			t.Errorf("docs/development/request-path.md names %s: %v", name, err)
		}
	}
}
