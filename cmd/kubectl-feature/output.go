// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

const (
	formatName = "name"
	formatWide = "wide"
)

// output is the flag --output and those that go with it.
type output struct {
	flags *genericclioptions.PrintFlags
	// wide tells that the command has a table with more columns.
	wide bool
}

func addOutput(command *cobra.Command, wide bool) *output {
	o := &output{flags: genericclioptions.NewPrintFlags(""), wide: wide}
	o.flags.AddFlags(command)
	command.Flag("output").Usage = "Output format. One of: " + strings.Join(o.formats(), ", ") + "."
	return o
}

func (o *output) formats() []string {
	formats := o.flags.AllowedFormats()
	if o.wide {
		formats = append(formats, formatWide)
	}
	slices.Sort(formats)
	return formats
}

// forPeople tells that no format is asked for, or the wide table.
func (o *output) forPeople() bool {
	template := o.flags.TemplatePrinterFlags.TemplateArgument
	return o.isWide() || *o.flags.OutputFormat == "" && (template == nil || *template == "")
}

func (o *output) isWide() bool { return o.wide && *o.flags.OutputFormat == formatWide }

// printer returns nil for people. It is asked for before anything is done, so that a wrong format does nothing.
func (o *output) printer() (printers.ResourcePrinter, error) {
	if o.forPeople() {
		return nil, nil
	}
	printer, err := o.flags.ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, unknownFormat(*o.flags.OutputFormat, o.formats())
	}
	return printer, err
}

func unknownFormat(format string, known []string) error {
	return fmt.Errorf("the output format %q is not known; known are %s", format, strings.Join(known, ", "))
}

// typed puts the kind into an object that came through a typed client, which leaves it out.
func typed(feature *v1alpha1.Feature) runtime.Object {
	feature.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("Feature"))
	return feature
}

// printList prints a list, or item by item where the format is about names.
func (o *output) printList(printer printers.ResourcePrinter, list *v1alpha1.FeatureList, to io.Writer) error {
	list.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("FeatureList"))
	if list.Items == nil {
		list.Items = []v1alpha1.Feature{}
	}
	for i := range list.Items {
		object := typed(&list.Items[i])
		if *o.flags.OutputFormat == formatName {
			if err := printer.PrintObj(object, to); err != nil {
				return err
			}
		}
	}
	if *o.flags.OutputFormat == formatName {
		return nil
	}
	return printer.PrintObj(list, to)
}

// column is one of a table's columns.
type column struct {
	name string
	of   func(*v1alpha1.Feature) string
}

// printTable prints as kubectl does.
func printTable(to io.Writer, columns []column, features []v1alpha1.Feature) error {
	table := &metav1.Table{}
	for _, c := range columns {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: c.name, Type: "string"})
	}
	for i := range features {
		row := metav1.TableRow{}
		for _, c := range columns {
			row.Cells = append(row.Cells, c.of(&features[i]))
		}
		table.Rows = append(table.Rows, row)
	}
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, to)
}
