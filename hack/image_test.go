// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package hack_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// ignored returns the matcher of .dockerignore, as Docker reads it.
func ignored(t *testing.T) *patternmatcher.PatternMatcher {
	t.Helper()
	patterns, err := ignorefile.ReadAll(strings.NewReader(read(t, "..", ".dockerignore")))
	if err != nil {
		t.Fatal(err)
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return matcher
}

// instructions returns the instructions of the Dockerfile, by stage: first words, and the rest of the line as a shell gets it.
func instructions(t *testing.T) (stages [][][2]string) {
	t.Helper()
	for line := range strings.SplitSeq(strings.ReplaceAll(read(t, "..", "Dockerfile"), "\\\n", ""), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		if name == "FROM" {
			stages = append(stages, nil)
		}
		last := len(stages) - 1
		stages[last] = append(stages[last], [2]string{name, strings.TrimSpace(rest)})
	}
	if len(stages) != 2 {
		t.Fatalf("the Dockerfile has %d stages, want 2: one that builds and the image", len(stages))
	}
	return stages
}

// TestTheImageBuildsFromItsBuildContext runs the builds of the Dockerfile over the files that Docker would send, and no others.
func TestTheImageBuildsFromItsBuildContext(t *testing.T) {
	t.Parallel()
	files, err := exec.Command("./files.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	matcher := ignored(t)
	var buildContext []string
	for file := range strings.SplitSeq(strings.TrimSuffix(string(files), "\x00"), "\x00") {
		if left, err := matcher.MatchesOrParentMatches(file); err != nil {
			t.Fatal(err)
		} else if !left {
			buildContext = append(buildContext, file)
		}
	}
	stages := instructions(t)

	dir, workdir, builds := t.TempDir(), "", 0
	environment := os.Environ()
	for _, instruction := range stages[0] {
		switch name, rest := instruction[0], instruction[1]; name {
		case "FROM":
			if language := inGoMod(t, `(?m)^go (\d+\.\d+)`); rest != "golang:"+language+" AS build" {
				t.Errorf("FROM %s: go.mod needs Go %s", rest, language)
			}
		case "WORKDIR":
			workdir = rest
		case "ARG":
			environment = append(environment, rest)
		case "COPY":
			copied := strings.Fields(rest)
			to := path.Clean(copied[len(copied)-1])
			copied = copied[:len(copied)-1]
			if to != "." && !slices.Equal(copied, []string{to}) {
				t.Fatalf("COPY %s: only copies to the same place below the working directory are known", rest)
			}
			copyFiles(t, dir, buildContext, copied)
		case "RUN":
			if !strings.Contains(rest, "go build") {
				continue // what it fetches is in the module cache
			}
			builds++
			build := exec.Command("sh", "-c", rest)
			build.Dir, build.Env = dir, environment
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", rest, err, out)
			}
		default:
			t.Fatalf("instruction %s is not known", name)
		}
	}
	if builds == 0 {
		t.Fatal("the Dockerfile builds nothing")
	}
	for _, instruction := range stages[1] {
		from, ok := strings.CutPrefix(instruction[1], "--from=build "+workdir+"/")
		if instruction[0] != "COPY" || !ok {
			continue
		}
		binary, _, _ := strings.Cut(from, " ")
		out, err := exec.Command(filepath.Join(dir, binary), "version").CombinedOutput()
		if want := "v1" + inGoMod(t, `k8s\.io/apiserver v0(\S+)`) + "+annex"; err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s version: %v, %s; want %s", binary, err, out, want)
		}
		return
	}
	t.Errorf("the image has nothing of %s", workdir)
}

// copyFiles copies those of the files that are or lie in one of the sources, relative to the checkout.
func copyFiles(t *testing.T, to string, files, sources []string) {
	t.Helper()
	for _, file := range files {
		if !slices.ContainsFunc(sources, func(source string) bool {
			source = path.Clean(source)
			return source == "." || file == source || strings.HasPrefix(file, source+"/")
		}) {
			continue
		}
		info, err := os.Stat(filepath.Join("..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		write(t, to, file, read(t, "..", file), info.Mode())
	}
}

// inGoMod returns what the first group of the expression matches in go.mod.
func inGoMod(t *testing.T, expression string) string {
	t.Helper()
	match := regexp.MustCompile(expression).FindStringSubmatch(read(t, "..", "go.mod"))
	if match == nil {
		t.Fatalf("go.mod has nothing like %s", expression)
	}
	return match[1]
}

// TestTheImageSeesNothingThatGitIgnores keeps data directories, with their keys, and what was built here out of build contexts.
func TestTheImageSeesNothingThatGitIgnores(t *testing.T) {
	t.Parallel()
	matcher := ignored(t)
	examples := []string{".git/config"}
	for line := range strings.SplitSeq(read(t, "..", ".gitignore"), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		example := strings.ReplaceAll(line, "*", "x")
		if !strings.HasPrefix(example, "/") {
			examples = append(examples, "cmd/annex/"+example)
		}
		if strings.HasSuffix(example, "/") {
			example += "x"
		}
		examples = append(examples, strings.TrimPrefix(example, "/"))
	}
	for _, example := range examples {
		if left, err := matcher.MatchesOrParentMatches(example); err != nil || !left {
			t.Errorf("%s is sent to Docker (%v); name it in .dockerignore as in .gitignore", example, err)
		}
	}
}
