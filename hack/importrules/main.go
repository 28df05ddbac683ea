// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command importrules checks the imports between the layers of this module, direct and transitive, and prints the chain of imports
// behind each finding; the rules are in layers.go. It also checks the public line, which public.go lists: the packages whose Go API is
// promised to other projects. Imports of third parties are the linter's business (depguard).
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	list := flag.Bool("promised", false, "list the promised packages of this module and exit")
	flag.Parse()
	do := run
	if *list {
		do = listPromised
	}
	ok, err := do(".", os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "importrules:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run checks the module in dir, prints the findings, and reports whether there are none.
func run(dir string, out io.Writer) (bool, error) {
	module, err := goList(dir, "-m")
	if err != nil {
		return false, err
	}
	module = strings.TrimSpace(module)
	packages, err := goList(dir, "-deps", "-f", `{{if not .Standard}}{{.ImportPath}} {{join .Imports " "}}{{end}}`, "./...")
	if err != nil {
		return false, err
	}
	findings := check(layers, module, parse(packages))
	public, err := checkPublic(dir, module)
	if err != nil {
		return false, err
	}
	findings = append(findings, public...)
	for _, f := range findings {
		fmt.Fprintln(out, f)
	}
	return len(findings) == 0, nil
}

// listPromised prints the import paths of the promised packages, generated clients left out: they follow from the types.
func listPromised(dir string, out io.Writer) (bool, error) {
	module, err := goList(dir, "-m")
	if err != nil {
		return false, err
	}
	packages, err := goList(dir, "./...")
	if err != nil {
		return false, err
	}
	for _, pkg := range strings.Fields(packages) {
		if folder := strings.TrimPrefix(pkg, strings.TrimSpace(module)+"/"); isPromised(folder) && !within(folder, "generated") {
			fmt.Fprintln(out, pkg)
		}
	}
	return true, nil
}

func goList(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out), nil
}

// parse reads lines of a package and its imports.
func parse(lines string) graph {
	g := graph{}
	for line := range strings.Lines(lines) {
		if fields := strings.Fields(line); len(fields) > 0 {
			g[fields[0]] = fields[1:]
		}
	}
	return g
}
