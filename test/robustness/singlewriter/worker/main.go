// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command worker campaigns for groups whose runners write all the time, and tells on standard output when each of them starts and
// stops. It is what test/robustness/singlewriter stops, kills and cuts off. Commands come on standard input, a line each; see commands.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/controllers/leadership"
)

// settings are the flags.
type settings struct {
	server, kubeconfig, namespace, host string
	groups                              int
	timings                             leadership.Timings
	plain, spread, idle, caches         bool
	pause, finish                       time.Duration
}

func main() {
	s := settings{timings: leadership.NewOptions().Timings}
	flag.StringVar(&s.server, "server", "", "URL of the API, which lets anybody in")
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "how to reach the API, instead of -server")
	flag.StringVar(&s.namespace, "namespace", "default", "namespace of Leases and ConfigMaps")
	flag.StringVar(&s.host, "host", "worker", "first part of holder identities")
	flag.IntVar(&s.groups, "groups", 1, "how many groups; group-0 has the Lease and the ConfigMap group-0")
	flag.DurationVar(&s.timings.LeaseDuration, "lease-duration", s.timings.LeaseDuration, "see leadership.Timings")
	flag.DurationVar(&s.timings.RenewDeadline, "renew-deadline", s.timings.RenewDeadline, "see leadership.Timings")
	flag.DurationVar(&s.timings.RetryPeriod, "retry-period", s.timings.RetryPeriod, "see leadership.Timings")
	flag.DurationVar(&s.timings.StopTimeout, "stop-timeout", s.timings.StopTimeout, "see leadership.Timings")
	flag.DurationVar(&s.timings.BalanceAfter, "spread-after", s.timings.BalanceAfter, "see leadership.Timings")
	flag.BoolVar(&s.spread, "spread", false, "spread the groups over the workers of the namespace")
	flag.BoolVar(&s.plain, "plain", false, "write with a client that knows nothing of terms")
	flag.BoolVar(&s.idle, "idle", false, "write nothing")
	flag.BoolVar(&s.caches, "caches", false, "have runners wait for a cache of the namespace's ConfigMaps first")
	flag.DurationVar(&s.pause, "pause", 50*time.Millisecond, "between the writes of a runner")
	flag.DurationVar(&s.finish, "finish", 0, "for how long at most runners go on writing when they are told to stop")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		stop()
		os.Exit(2)
	}
}

func run(ctx context.Context, s settings) error {
	config := &rest.Config{Host: s.server}
	if s.kubeconfig != "" {
		var err error
		if config, err = clientcmd.BuildConfigFromFlags("", s.kubeconfig); err != nil {
			return err
		}
	}
	config.QPS = -1
	options := leadership.NewOptions()
	options.Client, options.Host, options.Timings = config, s.host, s.timings
	if s.spread {
		options.Replicas.Namespace, options.Replicas.Name = s.namespace, "workers"
	}
	options.Exit = func(code int) {
		say(event{Event: "exit"})
		os.Exit(code)
	}
	plain, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	groups := make([]leadership.Group, 0, s.groups)
	orders := map[string]*order{}
	for i := range s.groups {
		name := fmt.Sprintf("group-%d", i)
		o := newOrder()
		orders[name] = o
		groups = append(groups, leadership.Group{
			Name: name, Lease: types.NamespacedName{Namespace: s.namespace, Name: name}, When: o.condition,
			New: func(term *leadership.Term) ([]leadership.Runnable, error) {
				client := plain
				if !s.plain {
					if client, err = kubernetes.NewForConfig(term.Client()); err != nil {
						return nil, err
					}
				}
				w := &writer{settings: s, client: client, group: name, term: term.Fence().Value(), order: o}
				return w.runners(), nil
			},
		})
	}
	candidate, err := leadership.New(options, groups...)
	if err != nil {
		return err
	}
	go obey(os.Stdin, orders)
	say(event{Event: "up"})
	return candidate.Run(ctx)
}
