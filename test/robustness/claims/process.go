// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/extension"
)

const (
	roleMember  = "etcd-member"
	roleReplica = "annex-replica"
)

// Main runs the tests, or is the process that a test has started this binary as.
func Main(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != roleMember && os.Args[1] != roleReplica {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	run := runReplica
	if os.Args[1] == roleMember {
		run = runMember
	}
	if err := run(ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runMember is a member of the etcd cluster.
func runMember(ctx context.Context, args []string) error {
	config := embed.NewConfig()
	flags := flag.NewFlagSet(roleMember, flag.ContinueOnError)
	flags.StringVar(&config.Name, "name", "", "")
	flags.StringVar(&config.Dir, "dir", "", "")
	flags.StringVar(&config.InitialCluster, "cluster", "", "")
	client, peer := flags.String("client", "", ""), flags.String("peer", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for address, into := range map[*string][]*[]url.URL{
		client: {&config.ListenClientUrls, &config.AdvertiseClientUrls},
		peer:   {&config.ListenPeerUrls, &config.AdvertisePeerUrls},
	} {
		parsed, err := url.Parse(*address)
		if err != nil {
			return err
		}
		for _, urls := range into {
			*urls = []url.URL{*parsed}
		}
	}
	config.LogLevel = "error"
	config.EnableGRPCGateway = false
	// What a killed process has written is still the system's.
	config.UnsafeNoFsync = true
	member, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer member.Close()
	select {
	case err := <-member.Err():
		return err
	case <-ctx.Done():
		return nil
	}
}

// runReplica is an extension apiserver.
func runReplica(ctx context.Context, args []string) error {
	options, store := extension.NewOptions(), etcd.NewOptions()
	options.Serving.BindAddress = net.IPv4(127, 0, 0, 1)
	flags := flag.NewFlagSet(roleReplica, flag.ContinueOnError)
	flags.StringVar(&options.Host.Kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&options.Serving.CertFile, "cert", "", "")
	flags.StringVar(&options.Serving.KeyFile, "key", "", "")
	flags.IntVar(&options.Serving.Port, "port", 0, "")
	servers := flags.String("servers", "", "")
	unguarded := flags.Bool("unguarded", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store.Servers = strings.Split(*servers, ",")
	completed, err := options.Complete()
	if err != nil {
		return err
	}
	storage, err := store.Complete("")
	if err != nil {
		return err
	}
	backend, err := storage.Start(ctx)
	if err != nil {
		return err
	}
	defer backend.Stop()
	if *unguarded {
		checkThenWrite(backend)
	}
	return extension.New(completed, backend).Run(ctx)
}

// checkThenWrite takes the guard away: rules are checked before a write, and the write does not compare what they have read.
func checkThenWrite(backend *etcd.Backend) {
	backend.Client.Kubernetes = kubernetes.Client{Client: backend.Client.Client}
}
