// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
)

func newControlPlane() *cobra.Command {
	o := controlplane.NewOptions()
	o.Metrics, o.FeatureGate = processMetrics{}, utilfeature.DefaultFeatureGate
	command := &cobra.Command{
		Use:   "controlplane",
		Short: "Run the generic control plane alone",
		Long:  "Runs a Kubernetes-style control plane without nodes and pods: namespaces, configuration, access reviews, custom resources and APIServices.",
		Args:  cobra.NoArgs,
	}
	var sections cliflag.NamedFlagSets
	o.AddFlags(&sections)
	storage := addStorage(sections.FlagSet("etcd"))
	metrics := addMetrics(sections.FlagSet("metrics"))
	logging := addLogging(sections.FlagSet("logs"))
	addSections(command, &sections)
	command.RunE = func(command *cobra.Command, _ []string) error {
		var registerMetrics func() error
		o.Leadership.Metrics, registerMetrics = newLeadershipMetrics()
		o.Leadership.BeforeExit = printTo(command.ErrOrStderr())
		completed, err := o.Complete()
		store, storeErr := storage.complete()
		if err := utilerrors.NewAggregate([]error{err, storeErr}); err != nil {
			return err
		}
		if err := errors.Join(logging.apply(os.Stderr), applyMetrics(metrics)); err != nil {
			return err
		}
		if err := registerMetrics(); err != nil {
			return err
		}
		return runOn(command.Context(), store, func(ctx context.Context, backend *etcd.Backend) error {
			return controlplane.New(completed, backend).Run(ctx)
		})
	}
	return command
}
