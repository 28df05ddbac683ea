// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kube-annex/annex/cmd/annex/internal/clusterproperties"
	"github.com/kube-annex/annex/cmd/internal/terminal"
)

func newClaims() *cobra.Command {
	command := &cobra.Command{
		Use:   "claims",
		Short: "Take ClusterClaims from and to the ClusterProperties of about.k8s.io",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newClaimsImport(), newClaimsExport())
	addSections(command, &cliflag.NamedFlagSets{})
	return command
}

func newClaimsImport() *cobra.Command {
	c := &claimsCommand{}
	var file string
	command := &cobra.Command{
		Use:   "import",
		Short: "Make ClusterClaims of ClusterProperties",
		Long: "Makes a ClusterClaim of each ClusterProperty of the cluster, or of a file. cluster.clusterset.k8s.io becomes id.k8s.io and is taken first,\n" +
			"then clusterset.k8s.io, with which the cluster joins that set. What cannot be taken is refused with the reason, and the rest is done; the\n" +
			"exit code is then 1. Nothing is deleted, no set is left or changed, and doing it again changes nothing.",
		Args: cobra.NoArgs,
	}
	var sections cliflag.NamedFlagSets
	c.addFlags(&sections, "import", "ClusterClaims")
	sections.FlagSet("import").StringVarP(&file, "filename", "f", "", "File with ClusterProperties in YAML or JSON instead of those of the cluster; - for standard input.")
	addSections(command, &sections)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := c.validate(); err != nil {
			return err
		}
		var properties []unstructured.Unstructured
		var err error
		if file != "" {
			properties, err = readProperties(file, command.InOrStdin())
		} else if err = c.connect(command); err == nil {
			properties, err = c.cluster.ListProperties(command.Context())
		}
		if err != nil {
			return err
		}
		items := clusterproperties.Claims(properties)
		if c.output != "" {
			return c.print(command, items)
		}
		if err = c.connect(command); err != nil {
			return err
		}
		refused, err := c.cluster.Import(command.Context(), items, c.options, c.report(command))
		return c.verdict(refused, len(items), err)
	}
	return command
}

func newClaimsExport() *cobra.Command {
	c := &claimsCommand{}
	command := &cobra.Command{
		Use:   "export",
		Short: "Make ClusterProperties of ClusterClaims",
		Long: "Makes a ClusterProperty of each ClusterClaim of the cluster, for tools that know about.k8s.io. id.k8s.io becomes\n" +
			"cluster.clusterset.k8s.io. What cannot be taken is refused with the reason, and the rest is done; the exit code is then 1. Nothing is\n" +
			"deleted, and doing it again changes nothing. `annex claims export -o yaml` prints them for another cluster, and needs no about.k8s.io.",
		Args: cobra.NoArgs,
	}
	var sections cliflag.NamedFlagSets
	c.addFlags(&sections, "export", "ClusterProperties")
	addSections(command, &sections)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := c.validate(); err != nil {
			return err
		}
		if err := c.connect(command); err != nil {
			return err
		}
		claims, err := c.cluster.ListClaims(command.Context())
		if err != nil {
			return err
		}
		items := clusterproperties.Properties(claims)
		if c.output != "" {
			return c.print(command, items)
		}
		refused, err := c.cluster.Export(command.Context(), items, c.options, c.report(command))
		return c.verdict(refused, len(items), err)
	}
	return command
}

// claimsCommand is what both ways have in common.
type claimsCommand struct {
	// makes is what the command makes.
	makes      string
	kubeconfig string
	output     string
	options    clusterproperties.Options
	cluster    *clusterproperties.Cluster
}

func (c *claimsCommand) addFlags(sections *cliflag.NamedFlagSets, way, makes string) {
	c.makes = makes
	addKubeconfig(sections, &c.kubeconfig)
	fs := sections.FlagSet(way)
	addDryRun(fs, &c.options.DryRun)
	fs.BoolVar(&c.options.Overwrite, "overwrite", false,
		"Replace values, labels and annotations that are there and differ. The set that a cluster is a member of stays all the same.")
	fs.StringVarP(&c.output, "output", "o", "", "Print the "+makes+" and change nothing. One of: json, name, table, yaml.")
}

func (c *claimsCommand) validate() error {
	switch {
	case c.output != "" && printersOfItems[c.output] == nil:
		return fmt.Errorf("--output %s is not known; known are json, name, table and yaml", c.output)
	case c.output != "" && c.options.Overwrite:
		return fmt.Errorf("--output prints and changes nothing, so --overwrite means nothing; leave out one of them")
	}
	return nil
}

func (c *claimsCommand) connect(command *cobra.Command) error {
	if c.cluster != nil {
		return nil
	}
	config, err := clientConfig(c.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.WarningHandler = rest.NewWarningWriter(terminal.Safe(command.ErrOrStderr()), rest.WarningWriterOptions{Deduplicate: true})
	c.cluster, err = clusterproperties.NewCluster(config)
	return err
}

func (c *claimsCommand) report(command *cobra.Command) clusterproperties.Report {
	return reportTo[clusterproperties.Action](command.OutOrStdout(), c.options.DryRun)
}

func (c *claimsCommand) verdict(refused, all int, err error) error {
	if err == nil && refused > 0 {
		return fmt.Errorf("%d of %d %s were refused; the line of each says why", refused, all, c.makes)
	}
	return err
}

// print writes what would be made to standard output, and what is refused to standard error.
func (c *claimsCommand) print(command *cobra.Command, items []clusterproperties.Item) error {
	refused, report := 0, reportTo[clusterproperties.Action](command.ErrOrStderr(), false)
	for _, item := range items {
		if item.Refusal != "" {
			refused++
			report(item.From, clusterproperties.Refused, item.Refusal)
		}
	}
	return c.verdict(refused, len(items), printersOfItems[c.output](terminal.Safe(command.OutOrStdout()), items))
}

func readProperties(path string, stdin io.Reader) ([]unstructured.Unstructured, error) {
	if path == "-" {
		return clusterproperties.Read(stdin)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--filename cannot be used: %w", err)
	}
	defer func() { _ = file.Close() }()
	objects, err := clusterproperties.Read(file)
	if err != nil {
		return nil, fmt.Errorf("--filename %s cannot be used: %w", path, err)
	}
	return objects, nil
}

// printersOfItems are the formats of --output.
var printersOfItems = map[string]func(io.Writer, []clusterproperties.Item) error{
	"json":  clusterproperties.WriteJSON,
	"name":  clusterproperties.WriteNames,
	"table": clusterproperties.WriteTable,
	"yaml":  clusterproperties.WriteYAML,
}
