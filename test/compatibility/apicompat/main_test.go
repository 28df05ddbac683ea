// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kube-annex/annex/controllers/clusterclaims/clusterid"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework/cluster"
)

const (
	root = "../../.."
	// namespace is where namespaced objects go that do not name another one.
	namespace = "verdicts"
	// startTimeout is generous: a busy machine may start many things at once.
	startTimeout = 90 * time.Second
)

// kube and annex are the two servers of all tests.
var kube, annex *server

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "annex-verdicts-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin, err := cluster.Build(ctx, root, os.Stderr)
	if err != nil {
		return 1, err
	}
	ours, ended, err := startAnnex(ctx, filepath.Join(dir, "annex"))
	if err != nil {
		return 1, err
	}
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()
	host, err := cluster.Start(ctx, cluster.Options{Dir: filepath.Join(dir, "kube"), Bin: bin})
	if err != nil {
		return 1, err
	}
	defer host.Stop()
	select {
	case <-ours.Ready():
	case err = <-ended:
		ended <- nil
		return 1, fmt.Errorf("annex ended before it was ready: %w", err)
	case <-time.After(startTimeout):
		return 1, fmt.Errorf("annex was not ready within %s", startTimeout)
	}
	if kube, err = newServer("kube-apiserver", host.Kubeconfig, host.Config); err != nil {
		return 1, err
	}
	if annex, err = newServer("annex", ours.Kubeconfig(), ours.AdminConfig()); err != nil {
		return 1, err
	}
	for _, s := range []*server{kube, annex} {
		if err := s.makeNamespace(ctx); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// startAnnex runs all of Annex in this process until the context ends. The channel then has how it ended.
func startAnnex(ctx context.Context, dir string) (*standalone.Server, chan error, error) {
	options := standalone.NewOptions()
	options.DataDir = dir
	options.ControlPlane.Serving.Port = 0
	options.Extension.Serving.Port = 0
	options.Controllers.ClusterID.Source = clusterid.SourceNone
	// kube-apiserver has no controllers beside it that would write what is to be compared, or remove it.
	options.ControlPlane.DisabledControllers = []string{"certificate-cleaner", "certificate-signer", "default-accounts", "garbage-collection",
		"namespace-deletion", "policy-status", "quota", "role-aggregation", "root-ca", "storage-migration", "token-secrets"}
	completed, err := options.Complete()
	if err != nil {
		return nil, nil, err
	}
	ours := standalone.New(completed)
	ended := make(chan error, 2)
	go func() { ended <- ours.Run(ctx) }()
	return ours, ended, nil
}
