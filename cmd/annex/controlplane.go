// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
)

func newControlPlane() *cobra.Command {
	o := controlplane.NewOptions()
	command := &cobra.Command{
		Use:   "controlplane",
		Short: "Run the generic control plane alone",
		Long:  "Runs a Kubernetes-style control plane without nodes and pods: namespaces, configuration, access reviews, custom resources and APIServices.",
		Args:  cobra.NoArgs,
	}
	o.AddFlags(command.Flags())
	storage := addStorage(command.Flags())
	logging := addLogging(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		registerMetrics := addLeadership(&o.Leadership, command.ErrOrStderr())
		completed, err := o.Complete()
		store, storeErr := storage.complete()
		if err := utilerrors.NewAggregate([]error{err, storeErr}); err != nil {
			return err
		}
		if err := logging.apply(os.Stderr); err != nil {
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
