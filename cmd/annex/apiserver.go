// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/extension"
)

func newAPIServer() *cobra.Command {
	o := extension.NewOptions()
	command := &cobra.Command{
		Use:   "apiserver",
		Short: "Run the extension apiserver for an existing cluster",
		Long: "Runs the extension apiserver for the cluster of --kubeconfig, or of the pod it runs in. The cluster reaches it through APIServices\n" +
			"for v1alpha1 of features.k8s.io, multicluster.k8s.io and node.k8s.io.",
		Args: cobra.NoArgs,
	}
	o.AddFlags(command.Flags())
	storage := addStorage(command.Flags())
	logging := addLogging(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		// Outside the cluster the data directory keeps the authorities as well, and nothing has to be registered for them.
		if o.Certificates.Directory == "" && o.Host.Kubeconfig != "" && storage.dataDir != "" {
			o.Certificates.Directory = filepath.Join(storage.dataDir, "pki")
		}
		completed, err := o.Complete()
		store, storeErr := storage.complete()
		if err := utilerrors.NewAggregate([]error{err, storeErr}); err != nil {
			return err
		}
		if err := logging.apply(os.Stderr); err != nil {
			return err
		}
		return runOn(command.Context(), store, func(ctx context.Context, backend *etcd.Backend) error {
			return extension.New(completed, backend).Run(ctx)
		})
	}
	return command
}
