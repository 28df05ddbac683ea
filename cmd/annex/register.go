// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kube-annex/annex/cmd/internal/terminal"
	"github.com/kube-annex/annex/controllers/restconfig"
	"github.com/kube-annex/annex/server/install"
)

func newRegister() *cobra.Command {
	o := install.NewOptions()
	var output string
	var dryRun bool
	var kubeconfig string
	command := &cobra.Command{
		Use:   "register",
		Short: "Put what the extension apiserver needs into an existing cluster",
		Long: "Puts the namespace, the Service, the APIServices, the rights of the extension apiserver and the default roles for its users into a cluster.\n" +
			"It can be repeated, changes nothing that belongs to someone else, and checks everything before it changes anything.",
		Args: cobra.NoArgs,
	}
	var sections cliflag.NamedFlagSets
	addKubeconfig(&sections, &kubeconfig)
	o.AddFlags(sections.FlagSet("registration"))
	fs := sections.FlagSet("output")
	addDryRun(fs, &dryRun)
	fs.StringVarP(&output, "output", "o", "", "yaml prints the objects instead of what is done; with --dry-run no cluster is needed for it.")
	addSections(command, &sections)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if output != "" && output != "yaml" {
			return fmt.Errorf("--output %s is not known; the only format is yaml", output)
		}
		r, err := o.Complete()
		if err != nil {
			return err
		}
		if output == "yaml" && dryRun {
			return install.WriteYAML(command.OutOrStdout(), r.Objects())
		}
		cluster, err := clusterOf(kubeconfig)
		if err != nil {
			return err
		}
		if output == "yaml" {
			if err := cluster.Register(command.Context(), r, false, func(string, install.Action, string) {}); err != nil {
				return err
			}
			return install.WriteYAML(command.OutOrStdout(), r.Objects())
		}
		return cluster.Register(command.Context(), r, dryRun, reportTo[install.Action](command.OutOrStdout(), dryRun))
	}
	return command
}

func newUnregister() *cobra.Command {
	r := install.New()
	var dryRun bool
	var kubeconfig string
	command := &cobra.Command{
		Use:   "unregister",
		Short: "Remove from a cluster what `annex register` put there",
		Long: "Removes what `annex register` put into a cluster, and nothing else: the objects that have its names and the label\n" +
			install.ManagedByLabel + "=" + install.ManagedBy + ". Features, ClusterClaims and NodeBalloons stay in the extension apiserver's own etcd.",
		Args: cobra.NoArgs,
	}
	var sections cliflag.NamedFlagSets
	addKubeconfig(&sections, &kubeconfig)
	r.Service.AddFlags(sections.FlagSet("registration"))
	addDryRun(sections.FlagSet("output"), &dryRun)
	addSections(command, &sections)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if errs := r.Service.Validate(); errs != nil {
			return errors.Join(errs...)
		}
		cluster, err := clusterOf(kubeconfig)
		if err != nil {
			return err
		}
		return cluster.Unregister(command.Context(), r, dryRun, reportTo[install.Action](command.OutOrStdout(), dryRun))
	}
	return command
}

func addKubeconfig(sections *cliflag.NamedFlagSets, path *string) {
	sections.FlagSet("cluster").StringVar(path, "kubeconfig", "", "Kubeconfig file of the cluster. Without it the one that kubectl would use.")
}

func addDryRun(fs *pflag.FlagSet, dryRun *bool) {
	fs.BoolVar(dryRun, "dry-run", false, "Only say what would be done. The cluster is asked whether it would accept it.")
}

func clusterOf(kubeconfig string) (*install.Cluster, error) {
	config, err := clientConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	return install.NewCluster(config)
}

// clientConfig reads a kubeconfig, or else the one that kubectl would use.
func clientConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	switch {
	case err != nil && kubeconfig == "":
		return nil, fmt.Errorf("no cluster is configured: %w; set --kubeconfig", err)
	case err != nil:
		return nil, fmt.Errorf("--kubeconfig %s cannot be used: %w; give a complete kubeconfig file", kubeconfig, err)
	}
	restconfig.RejectRedirects(config)
	return config, nil
}

// reportTo writes a line an object.
func reportTo[Action ~string](to io.Writer, dryRun bool) func(object string, action Action, note string) {
	return func(object string, action Action, note string) {
		line := object + " " + string(action)
		if note != "" {
			line += ": " + oneLine(note)
		}
		if dryRun {
			line += " (dry run)"
		}
		_, _ = fmt.Fprintln(to, terminal.Text(line))
	}
}
