// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cluster-identity is a program that knows which cluster it runs in: it says so whenever that changes, all it logs carries the
// cluster's id and set, and so do its metrics, on --metrics-address. Once the cluster is a member of a set it prints the DNS name of a
// backend. It finds its cluster by $KUBECONFIG, or ~/.kube/config.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/clusteridentity"
	"github.com/kube-annex/annex/clusteridentity/logs"
	"github.com/kube-annex/annex/clusteridentity/metrics"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cluster-identity:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := pflag.NewFlagSet("cluster-identity", pflag.ContinueOnError)
	address := flags.String("metrics-address", "127.0.0.1:0", "Where to serve metrics.")
	if err := flags.Parse(args); err != nil {
		return err
	}

	// Loggers and metrics are made before anything is known, and say what is known by the time they are used.
	cluster := clusteridentity.New()
	logger := slog.New(logs.NewHandler(slog.NewTextHandler(out, nil), cluster.Current))
	registry := prometheus.NewRegistry()
	seen := prometheus.NewCounter(prometheus.CounterOpts{Name: "identities_seen_total", Help: "How often the cluster's identity was new."})
	registry.MustRegister(seen, metrics.NewCollector(cluster.Current))

	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           promhttp.HandlerFor(metrics.NewGatherer(registry, cluster.Current), promhttp.HandlerOpts{}),
		ReadHeaderTimeout: time.Minute,
	}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { _ = server.Serve(listener) })
	defer func() { _ = server.Close() }()
	// An error would mean that config is none.
	work.Go(func() { _ = cluster.Run(ctx, config) })
	logger.Info("Hello", "metrics", "http://"+listener.Addr().String())

	// In order to do something else beside this, wait with cluster.WaitForMembership(ctx).
	for identity := range cluster.Changes(ctx) {
		seen.Inc()
		if !identity.IsMember() {
			logger.Info("The identity has changed")
			continue
		}
		name, err := identity.DNSName("db-0", "db", "shop")
		if err != nil {
			return err
		}
		logger.Info("The cluster is a member of a set", "backend", name)
	}
	return nil
}
