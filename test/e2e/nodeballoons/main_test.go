// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeballoons tests NodeBalloons on real kubelets, schedulers and DaemonSets: a cluster with hollow nodes, which differ from
// others only in that no container runs, and the controllers as they are deployed, with no more rights than they have there.
//
// Tests that are about the controllers run one after the other, before the rest. The rest run in parallel, each with nodes of its own.
package nodeballoons

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
)

const (
	root = "../../.."
	user = "system:annex:apiserver"
	// startupTaint is what nodes have while their balloons do not hold what they should.
	startupTaint = "example.com/balloon-starting"
)

// manyNodes is how many nodes are simulated.
var manyNodes = flag.Int("nodes", 25, "how many simulated nodes are resized at once")

// nodes are those of the cluster that are there from the start. Each test has one of its own.
var nodes = []string{"n-auto", "n-displace", "n-grow", "n-hold", "n-refused", "n-replace", "n-terms"}

var (
	dir    string
	host   *cluster.Cluster
	annex  *versioned.Clientset
	binary string
)

func TestMain(m *testing.M) {
	flag.Parse()
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
	if dir, err = os.MkdirTemp("", "annex-balloons-"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if binary, err = framework.AnnexFor(root); err != nil {
		return 1, err
	}
	audit, err := auditArgs()
	if err != nil {
		return 1, err
	}
	if host, err = cluster.Start(ctx, cluster.Options{Dir: dir, Bin: bin, Nodes: nodes, APIServerArgs: audit}); err != nil {
		return 1, err
	}
	defer host.Stop()
	apiServer, err := startAPIServer(ctx)
	if err != nil {
		return 1, err
	}
	defer func() { _ = apiServer.Stop() }()
	if annex, err = versioned.NewForConfig(host.Config); err != nil {
		return 1, err
	}
	if err = waitServed(ctx); err != nil {
		return 1, fmt.Errorf("%w\n%s", err, apiServer.Tail(30))
	}
	if err = allow(ctx); err != nil {
		return 1, err
	}
	if err = startControllers("On"); err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := controllers.Stop(); stopErr != nil && err == nil {
			code, err = 1, stopErr
		}
	}()
	if code = m.Run(); code != 0 {
		fmt.Fprintln(os.Stderr, controllers.Tail(200))
	}
	return code, nil
}

// startAPIServer runs `annex apiserver` behind the cluster.
func startAPIServer(ctx context.Context) (*cluster.Process, error) {
	port, err := cluster.FreePort()
	if err != nil {
		return nil, err
	}
	if err = command(ctx, "register", "--kubeconfig="+host.Kubeconfig, "--user="+user, "--external-name=localhost", "--service-port="+strconv.Itoa(port)); err != nil {
		return nil, err
	}
	kubeconfig, err := host.Identity(user)
	if err != nil {
		return nil, err
	}
	return cluster.StartProcess("annex", filepath.Join(dir, "annex.log"), binary, "apiserver", "--kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port), "--data-dir="+filepath.Join(dir, "data"),
		"--feature-gates=NodeBalloonReclaimPolicy=true")
}
