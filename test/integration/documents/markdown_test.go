// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// A block is a fenced code block of a document.
type block struct {
	document string
	line     int
	language string
	text     string
	// notRun is the reason of a comment `<!-- not run: reason -->` directly before the block.
	notRun string
	// repeated is the reason of a comment `<!-- repeated: reason -->` directly before the block.
	repeated string
	// output is the text block directly after the block, the expected output.
	output *block
}

var (
	fence   = regexp.MustCompile("^\\s*```([\\w-]*)$")
	comment = regexp.MustCompile(`^\s*<!-- (not run|repeated): (.*) -->$`)
)

// parse returns the code blocks of a document.
func parse(document, content string) []*block {
	var blocks []*block
	var open, previous *block
	var reasons map[string]string
	var lines []string
	for i, line := range strings.Split(content, "\n") {
		match := fence.FindStringSubmatch(line)
		switch {
		case open != nil && match != nil:
			open.text = strings.Join(lines, "\n")
			previous, open = open, nil
		case open != nil:
			lines = append(lines, line)
		case match != nil:
			open = &block{document: document, line: i + 1, language: match[1], notRun: reasons["not run"], repeated: reasons["repeated"]}
			if previous != nil && previous.language == "sh" && open.language == "text" {
				previous.output = open
			}
			blocks = append(blocks, open)
			reasons, lines = nil, nil
		case comment.MatchString(line):
			parts := comment.FindStringSubmatch(line)
			reasons, previous = map[string]string{parts[1]: parts[2]}, nil
		case strings.TrimSpace(line) != "":
			reasons, previous = nil, nil
		}
	}
	return blocks
}

// files returns the paths of all files with a suffix, relative to the repository.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || entry.Name() == ".annex") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, suffix) {
			paths = append(paths, strings.TrimPrefix(filepath.ToSlash(path), root+"/"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func read(t *testing.T, document string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// manual returns the README and the documents under docs, in the order of the links in the README.
func manual(t *testing.T) []string {
	t.Helper()
	documents := []string{"README.md"}
	for _, match := range link.FindAllStringSubmatch(read(t, "README.md"), -1) {
		document, _, _ := strings.Cut(match[1], "#")
		if strings.HasPrefix(document, "docs/") && strings.HasSuffix(document, ".md") && !slices.Contains(documents, document) {
			documents = append(documents, document)
		}
	}
	return documents
}

func TestParse(t *testing.T) {
	t.Parallel()
	blocks := parse("a.md", strings.Join([]string{
		"```sh", "one", "```", "", "```text", "1", "```",
		"<!-- not run: no cluster -->", "```sh", "two", "```", "words", "```text", "2", "```",
		"<!-- repeated: takes a second -->", "words", "```sh", "three", "```",
		"  <!-- repeated: takes a second -->", "  ```sh", "four", "  ```",
	}, "\n"))
	if len(blocks) != 6 {
		t.Fatalf("got %d blocks, want 6", len(blocks))
	}
	if got := blocks[0]; got.text != "one" || got.line != 1 || got.output != blocks[1] || got.notRun != "" {
		t.Errorf("a block with output: got %+v", got)
	}
	if got := blocks[2]; got.notRun != "no cluster" || got.output != nil {
		t.Errorf("a block that is not run, with words before the text: got %+v", got)
	}
	if got := blocks[4]; got.repeated != "" {
		t.Errorf("a comment that is not directly before the block: got %+v", got)
	}
	if got := blocks[5]; got.repeated != "takes a second" {
		t.Errorf("an indented block: got %+v", got)
	}
}
