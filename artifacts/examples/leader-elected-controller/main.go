// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command leader-elected-controller keeps the ConfigMap default/cluster-id in line with the ClusterClaim id.k8s.io. Any number of
// copies may run, one works at a time, and a copy that loses its Lease stays as a follower. It reads $KUBECONFIG, or ~/.kube/config.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/generated/informers/externalversions"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "leader-elected-controller:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	options := leadership.NewOptions()
	options.Timings.AddFlags(pflag.CommandLine)
	pflag.Parse()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}
	options.Client = config
	elector, err := leadership.New(options, leadership.Group{
		Name:  "cluster-id",
		Lease: types.NamespacedName{Namespace: "default", Name: "leader-elected-controller"},
		New:   newTerm,
	})
	if err != nil {
		return err
	}
	return elector.Run(ctx)
}

// newTerm makes what runs for one term: clients and informers of the term, and a controller that reads them. It starts nothing.
func newTerm(term *leadership.Term) ([]leadership.Runnable, error) {
	annex, err := versioned.NewForConfig(term.Client())
	if err != nil {
		return nil, err
	}
	cluster, err := kubernetes.NewForConfig(term.Client())
	if err != nil {
		return nil, err
	}
	factory := externalversions.NewSharedInformerFactory(annex, 0)
	controller, err := newController(cluster, factory.Multicluster().V1alpha1().ClusterClaims(), term.Fence().Holder)
	if err != nil {
		return nil, err
	}
	return []leadership.Runnable{leadership.Informers("claims", factory), {Name: "copy", Run: controller.Run}}, nil
}
