// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/kube-annex/annex/test/framework/cluster"
)

const root = "../../.."

var (
	all     = flag.Bool("all", false, "run every spec of specs.txt that can be run, not only the quick ones")
	only    = flag.String("only", "", "run the specs whose names match this regular expression, those too that are skipped")
	procs   = flag.Int("procs", 4, "how many specs run at the same time")
	reports = flag.String("reports", "", "directory for what the specs and annex say, from the repository's root; without it nothing is kept")
)

var (
	//go:embed specs.txt
	content []byte
	specs   list
	// bin is where the binary with the specs is.
	bin string
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if specs, err = parse(content); err != nil {
		return 1, fmt.Errorf("read specs.txt: %w", err)
	}
	if bin, err = cluster.BuildSpecs(context.Background(), root, os.Stderr); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
