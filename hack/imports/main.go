// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command imports checks who may import whom in this module, directly and through others, and
// prints the chain of imports behind each finding. The linter's depguard tells the direct half in
// the editor; this program sees what a package reaches. The rules are in rooms.go.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	findings, err := run(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "imports:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// run checks the module in dir.
func run(dir string) ([]string, error) {
	module, err := goList(dir, "-m")
	if err != nil {
		return nil, err
	}
	packages, err := goList(dir, "-deps", "-f", `{{if not .Standard}}{{.ImportPath}} {{join .Imports " "}}{{end}}`, "./...")
	if err != nil {
		return nil, err
	}
	return check(rooms, strings.TrimSpace(module), parse(packages)), nil
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
