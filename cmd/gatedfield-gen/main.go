// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gatedfield-gen writes the tables of fields that are marked with +featureGate; package generator says how to mark them.
//
//	gatedfield-gen --gates-package example.com/gates ./apis/...
package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator"
)

func main() {
	options := generator.NewOptions()
	options.AddFlags(pflag.CommandLine)
	pflag.Parse()
	if err := options.Run(pflag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err)
		os.Exit(1)
	}
}
