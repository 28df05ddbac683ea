// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manager is a controller as many write them, with controller-runtime: a kind of its own, leader election, a finalizer, conditions,
// owned objects, Events, and metrics for those who may read them. It runs against Annex in test/compatibility/clients, and is a module of its own because
// controller-runtime may need other versions of libraries than Annex does. What has to be in the cluster first is in config/.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

type options struct {
	healthAddress, metricsAddress, namespace string
	lease, renew, retry                      time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.healthAddress, "health-address", "127.0.0.1:8081", "Where /healthz and /readyz are served.")
	flag.StringVar(&o.metricsAddress, "metrics-address", "127.0.0.1:8443", "Where /metrics is served to those who may get that path in the cluster.")
	flag.StringVar(&o.namespace, "leader-election-namespace", "sites-system", "Namespace of the Lease.")
	flag.DurationVar(&o.lease, "lease-duration", 15*time.Second, "For how long a Lease holds that is not renewed.")
	flag.DurationVar(&o.renew, "renew-deadline", 10*time.Second, "For how long a leader tries to renew its Lease before it ends.")
	flag.DurationVar(&o.retry, "retry-period", 2*time.Second, "How long to wait between attempts.")
	// --kubeconfig is a flag of controller-runtime.
	flag.Parse()
	ctrl.SetLogger(textlogger.NewLogger(textlogger.NewConfig()))
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addToScheme(scheme)
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		LeaderElection:          true,
		LeaderElectionID:        "sites",
		LeaderElectionNamespace: o.namespace,
		LeaseDuration:           &o.lease,
		RenewDeadline:           &o.renew,
		RetryPeriod:             &o.retry,
		HealthProbeBindAddress:  o.healthAddress,
		Metrics: metricsserver.Options{
			BindAddress: o.metricsAddress, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
	})
	if err != nil {
		return err
	}
	if err = mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err = mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err = addSites(mgr); err != nil {
		return err
	}
	// Only who leads runs this.
	if err = mgr.Add(manager.RunnableFunc(sayLeading)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func sayLeading(context.Context) error {
	_, err := fmt.Println("leading")
	return err
}
