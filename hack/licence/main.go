// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command licence checks that every hand-written Go file and script among its arguments begins
// with the licence header, and with -write puts the missing ones there.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

var (
	header = []string{"Copyright The Annex Authors.", "SPDX-License-Identifier: Apache-2.0"}
	// generated is how Go tools mark a file that nobody edits.
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
)

func main() {
	write := flag.Bool("write", false, "add the header where it is missing")
	flag.Parse()
	missing := 0
	for _, file := range flag.Args() {
		lacks, err := process(file, *write)
		if err != nil {
			fmt.Fprintln(os.Stderr, "licence:", err)
			os.Exit(2)
		}
		if lacks {
			missing++
			fmt.Println(file)
		}
	}
	if missing > 0 {
		os.Exit(1)
	}
}

// process tells whether the header is missing, or with write adds it and tells that it is not.
func process(file string, write bool) (missing bool, err error) {
	info, err := os.Stat(file)
	if os.IsNotExist(err) {
		return false, nil // deleted, and not yet committed
	}
	if err != nil {
		return false, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	fixed, ok := withHeader(content)
	if ok || !write {
		return !ok, nil
	}
	return false, os.WriteFile(file, fixed, info.Mode()&fs.ModePerm)
}

// withHeader returns the content with the header, and whether it had it (or needs none).
func withHeader(content []byte) (fixed []byte, ok bool) {
	comment, first, rest := "//", []byte(nil), content
	if bytes.HasPrefix(content, []byte("#!")) {
		comment = "#"
		end := bytes.IndexByte(content, '\n') + 1
		first, rest = content[:end], content[end:]
	} else if generated.Match(content) {
		return content, true
	}
	var want strings.Builder
	for _, line := range header {
		want.WriteString(comment + " " + line + "\n")
	}
	if bytes.HasPrefix(rest, []byte(want.String())) {
		return content, true
	}
	want.WriteByte('\n')
	return bytes.Join([][]byte{first, []byte(want.String()), rest}, nil), false
}
