// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kube-annex/annex/server/controllermanager"
)

func newControllers() *cobra.Command {
	o := controllermanager.NewOptions()
	command := &cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers against an existing cluster",
		Long: "Runs the controllers that act on Annex's APIs against the cluster of --kubeconfig, or of the pod it runs in. Several may run: each\n" +
			"group of controllers runs in one process at a time, under a Lease, and /healthz/leadership says where.",
		Args: cobra.NoArgs,
	}
	var sections cliflag.NamedFlagSets
	o.AddFlags(&sections)
	metrics := addMetrics(sections.FlagSet("metrics"))
	logging := addLogging(sections.FlagSet("logs"))
	addSections(command, &sections)
	command.RunE = func(command *cobra.Command, _ []string) error {
		var registerMetrics func() error
		o.Leadership.Metrics, registerMetrics = newLeadershipMetrics()
		o.Leadership.BeforeExit = printTo(command.ErrOrStderr())
		registerIdentity := addClusterIdentity(&o.ClusterIdentity)
		registerBalloons := addNodeBalloons(o.Groups.NodeBalloons)
		completed, err := o.Complete()
		if err != nil {
			return err
		}
		if err := errors.Join(logging.apply(os.Stderr), applyMetrics(metrics)); err != nil {
			return err
		}
		if err := errors.Join(registerMetrics(), registerIdentity(), registerBalloons()); err != nil {
			return err
		}
		return controllermanager.New(completed).Run(command.Context())
	}
	return command
}
