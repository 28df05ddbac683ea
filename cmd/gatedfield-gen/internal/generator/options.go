// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/gengo/v2"
	gengogenerator "k8s.io/gengo/v2/generator"
	"k8s.io/gengo/v2/parser"
)

// Options say what to generate.
type Options struct {
	// GatesPackage is the import path of the package that has the gates, for API packages that name none themselves.
	GatesPackage string
	// HeaderFile has the text that stands at the top of the output, YEAR being replaced; empty for none.
	HeaderFile string
	// OutputFile is the name of the file in each package that has gated fields.
	OutputFile string
}

// NewOptions returns options with their defaults.
func NewOptions() *Options {
	return &Options{OutputFile: "zz_generated.gatedfields.go"}
}

// AddFlags adds the options as flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.GatesPackage, "gates-package", o.GatesPackage,
		"Import path of the package with the feature gates, for API packages whose doc.go has no +featureGates=PATH.")
	flags.StringVar(&o.HeaderFile, "go-header-file", o.HeaderFile, "File with the text that the output begins with; YEAR in it is replaced.")
	flags.StringVar(&o.OutputFile, "output-file", o.OutputFile, "Name of the generated file in each package that has gated fields.")
}

// Validate says what is wrong with the options.
func (o *Options) Validate() []error {
	if o.OutputFile == "" {
		return []error{errors.New("--output-file must not be empty; the usual name is zz_generated.gatedfields.go")}
	}
	return nil
}

// Run generates for the packages that match the patterns, from the current directory. Its error is all mistakes of the API's
// authors, a line each, in which case nothing is written.
func (o *Options) Run(patterns []string) error {
	if errs := o.Validate(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	files, err := o.generate(patterns)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := replace(name, files[name]); err != nil {
			return fmt.Errorf("writing the table of gated fields: %w", err)
		}
	}
	return nil
}

// generate returns the content of each package's output file; nil where there must be none.
func (o *Options) generate(patterns []string) (map[string][]byte, error) {
	if len(patterns) == 0 {
		return nil, errors.New("no packages are given; name those of the served types, as in gatedfield-gen --gates-package=PATH ./apis/... from the module's folder")
	}
	p := parser.NewWithOptions(parser.Options{BuildTags: []string{gengo.StdBuildTag}})
	if err := p.LoadPackages(patterns...); err != nil {
		return nil, fmt.Errorf("loading the API packages: %w", err)
	}
	context, err := gengogenerator.NewContext(p, nil, "")
	if err != nil {
		return nil, fmt.Errorf("reading the API packages: %w", err)
	}
	api, err := load(context, o.GatesPackage)
	if err != nil {
		return nil, err
	}
	tables := api.tables()
	if err := api.mistakes.err(); err != nil {
		return nil, err
	}
	return o.write(context, tables)
}

// replace makes a file what it shall be, and leaves alone what is so already.
func replace(name string, content []byte) error {
	if content == nil {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, content) {
		return nil
	}
	return os.WriteFile(name, content, 0o644)
}
