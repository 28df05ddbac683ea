// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/extension"
)

func newAPIServer() *cobra.Command {
	o := extension.NewOptions()
	o.RegisterMetrics, o.FeatureGate = legacyregistry.Register, utilfeature.DefaultFeatureGate
	command := &cobra.Command{
		Use:   "apiserver",
		Short: "Run the extension apiserver for an existing cluster",
		Long: "Runs the extension apiserver for the cluster of --kubeconfig, or of the pod it runs in. The cluster reaches it through APIServices\n" +
			"for v1alpha1 of features.k8s.io, multicluster.k8s.io and node.k8s.io.",
		Args: cobra.NoArgs,
	}
	var sections cliflag.NamedFlagSets
	o.AddFlags(&sections)
	storage := addStorage(sections.FlagSet("etcd"))
	metrics := addMetrics(sections.FlagSet("metrics"))
	logging := addLogging(sections.FlagSet("logs"))
	addSections(command, &sections)
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
		if err := errors.Join(logging.apply(os.Stderr), applyMetrics(metrics)); err != nil {
			return err
		}
		return runOn(command.Context(), store, func(ctx context.Context, backend *etcd.Backend) error {
			return extension.New(completed, backend).Run(ctx)
		})
	}
	return command
}
