// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Annex behind a real kube-apiserver, with the real controllers, scheduler and a hollow kubelet beside it.
package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/kube-annex/annex/test/framework/cluster"
)

const (
	root = "../.."
	node = "hollow-1"
)

// host is the cluster of all tests. A registration is one for the whole cluster, so tests that register run one after the
// other, and each leaves the cluster without one.
var host *cluster.Cluster

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	bin, err := cluster.Build(ctx, root, os.Stderr)
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "annex-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if host, err = cluster.Start(ctx, cluster.Options{Dir: dir, Bin: bin, Nodes: []string{node}}); err != nil {
		return 1, err
	}
	defer host.Stop()
	if code = m.Run(); code != 0 {
		fmt.Fprintln(os.Stderr, host.Logs())
	}
	return code, nil
}
