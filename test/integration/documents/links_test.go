// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kube-annex/annex/test/framework"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")
	// namedPath is a path of the repository, as a word of its own. Paths with a placeholder such as <group> are none.
	namedPath    = regexp.MustCompile(`(?m)(?:^|[\s` + "`" + `(])((?:apis|artifacts|cmd|clusteridentity|controllers|docs|featuregate|generated|hack|internal|registry|server|test)/[\w./-]*\w)/?(?:[\s` + "`" + `,;:).]|$)`)
	makeTarget   = regexp.MustCompile("`make ([a-z-]+)")
	namedTest    = regexp.MustCompile(`\bTest[A-Z]\w+`)
	testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z]\w+)\(`)
	// flagInText is a flag at the start of inline code.
	flagInText = regexp.MustCompile("`(--[a-z][a-z-]+)[^`\n]*`")
)

// TestLinks checks that the links of all documents lead to a file or a heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, document := range files(t, ".md") {
		text := code.ReplaceAllString(read(t, document), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
				continue
			}
			if err := resolve(document, match[1]); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", document, match[1], err)
			}
		}
	}
}

// resolve returns an error unless a link of a document leads to a file, a folder or a heading.
func resolve(document, target string) error {
	name, anchor, _ := strings.Cut(target, "#")
	at := document
	if name != "" {
		at = path.Join(path.Dir(document), name)
	}
	if info, err := os.Stat(filepath.Join(root, at)); err == nil && info.IsDir() {
		return nil
	}
	content, err := os.ReadFile(filepath.Join(root, at))
	if err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	if anchor != "" && !slices.Contains(anchors(string(content)), anchor) {
		return fmt.Errorf("%s has no heading #%s", at, anchor)
	}
	return nil
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)

// anchors returns the anchors of the headings of a document, as GitHub writes them.
func anchors(content string) []string {
	var names []string
	for _, match := range heading.FindAllStringSubmatch(regexp.MustCompile("(?s)```.*?```").ReplaceAllString(content, ""), -1) {
		name := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")
		number := 0
		for slices.Contains(names, name+suffix(number)) {
			number++
		}
		names = append(names, name+suffix(number))
	}
	return names
}

func suffix(number int) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf("-%d", number)
}

// TestEveryDocumentIsInTheIndex checks that the README links to every document under docs.
func TestEveryDocumentIsInTheIndex(t *testing.T) {
	t.Parallel()
	index := manual(t)
	for _, document := range files(t, ".md") {
		if strings.HasPrefix(document, "docs/") && !slices.Contains(index, document) {
			t.Errorf("README.md does not link to %s", document)
		}
	}
}

// TestNamedFilesExist checks that files, folders and make targets that documents name exist.
func TestNamedFilesExist(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	for _, document := range files(t, ".md") {
		content := read(t, document)
		for _, match := range namedPath.FindAllStringSubmatch(content, -1) {
			if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
				t.Errorf("%s names %s: %v", document, match[1], err)
			}
		}
		for _, match := range makeTarget.FindAllStringSubmatch(content, -1) {
			if !strings.Contains(makefile, "\n"+match[1]+":") {
				t.Errorf("%s names `make %s`: the Makefile has no such target", document, match[1])
			}
		}
	}
}

// TestNamedTestsExist checks that tests that documents name exist.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for _, path := range files(t, "_test.go") {
		for _, match := range testFunction.FindAllStringSubmatch(read(t, path), -1) {
			tests[match[1]] = true
		}
	}
	for _, document := range files(t, ".md") {
		for _, name := range namedTest.FindAllString(read(t, document), -1) {
			if !tests[name] {
				t.Errorf("%s names %s: there is no such test", document, name)
			}
		}
	}
}

// flagsOfOthers lists flags in the documents that belong to other programs.
var flagsOfOthers = []string{"--subresource", "--register-with-taints"}

// TestFlagsExist checks that the flags that documents name belong to a command of annex, or to kubectl feature.
func TestFlagsExist(t *testing.T) {
	t.Parallel()
	annex, feature := framework.Annex(t, root), framework.Build(t, "kubectl-feature", root, "./cmd/kubectl-feature")
	known := help(t, annex) + help(t, feature)
	for _, document := range manual(t) {
		for _, match := range flagInText.FindAllStringSubmatch(read(t, document), -1) {
			if !strings.Contains(known, "   "+match[1]+" ") && !strings.Contains(known, ", "+match[1]+" ") && !slices.Contains(flagsOfOthers, match[1]) {
				t.Errorf("%s names %s: no command has this flag", document, match[1])
			}
		}
	}
}

// help returns the help of a program and of all its commands.
func help(t *testing.T, program string, command ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, append(slices.Clone(command), "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s --help: %v\n%s", program, strings.Join(command, " "), err, out)
	}
	text := string(out)
	_, commands, _ := strings.Cut(text, "Commands:\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	for line := range strings.Lines(commands) {
		if words := strings.Fields(line); len(words) > 0 && words[0] != "help" && words[0] != "completion" {
			text += help(t, program, append(slices.Clone(command), words[0])...)
		}
	}
	return text
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	got := anchors("# Two words\n\n## `code`, and (more)\n\n```sh\n# no heading\n```\n\n## Two words\n")
	if want := []string{"two-words", "code-and-more", "two-words-1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFilePattern(t *testing.T) {
	t.Parallel()
	var got []string
	for _, match := range namedPath.FindAllStringSubmatch("`server/etcd/` and registry/node/nodeballoon.go, not /apis/node or apis/<group>/x or a `test/*.go`", -1) {
		got = append(got, match[1])
	}
	if want := []string{"server/etcd", "registry/node/nodeballoon.go"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
