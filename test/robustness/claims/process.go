// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/client/v3/kubernetes"

	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/extension"
)

const roleReplica = "annex-replica"

// Main runs the tests, or is the process that a test has started this binary as.
func Main(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != roleReplica {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := runReplica(ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
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
