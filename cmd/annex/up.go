// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kube-annex/annex/server/standalone"
)

func newUp() *cobra.Command {
	o := standalone.NewOptions()
	o.ControlPlane.Metrics, o.ControlPlane.FeatureGate = processMetrics{}, utilfeature.DefaultFeatureGate
	o.Extension.RegisterMetrics, o.Extension.FeatureGate = legacyregistry.Register, utilfeature.DefaultFeatureGate
	command := &cobra.Command{
		Use:   "up",
		Short: "Run etcd, a control plane, the extension apiserver and its controllers on this machine, and write a kubeconfig",
		Long: "Runs embedded etcd, a small control plane, the extension apiserver behind APIServices of it, and its controllers, all in this process,\n" +
			"and writes an administrator's kubeconfig into the data directory. Ctrl-C stops everything; the next start finds all data again.",
		Args: cobra.NoArgs,
	}
	var sections cliflag.NamedFlagSets
	o.AddFlags(&sections)
	var logPath string
	sections.FlagSet("logs").StringVar(&logPath, "log-file", "", "File for the log; - for standard error. (default annex.log in the data directory)")
	logging := addLogging(sections.FlagSet("logs"))
	addSections(command, &sections)
	command.RunE = func(command *cobra.Command, _ []string) error {
		var registerMetrics func() error
		o.Leadership.Metrics, registerMetrics = newLeadershipMetrics()
		o.Leadership.BeforeExit = printTo(command.ErrOrStderr())
		registerIdentity := addClusterIdentity(&o.ClusterIdentity)
		o.Out = command.OutOrStdout()
		completed, err := o.Complete()
		if err != nil {
			return err
		}
		if err := logging.apply(upLog(o.DataDir, logPath)); err != nil {
			return err
		}
		if err := errors.Join(registerMetrics(), registerIdentity()); err != nil {
			return err
		}
		return standalone.New(completed).Run(command.Context())
	}
	return command
}

// upLog keeps the log out of the way of what `annex up` tells its user.
func upLog(dataDir, path string) io.Writer {
	switch path {
	case "-":
		return os.Stderr
	case "":
		path = filepath.Join(dataDir, "annex.log")
	}
	return &logFile{path: path}
}
