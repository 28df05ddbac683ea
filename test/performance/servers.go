// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
)

// startTimeout is how long a server may take until it serves what is asked of it.
const startTimeout = 2 * time.Minute

// servers starts what peers need, once each.
type servers struct {
	settings settings
	dir, bin string
	// binary is annex.
	binary string

	cluster *cluster.Cluster
	etcd    *cluster.Etcd
	pki     *pki.Directory
	// ours and sample are extension apiservers of the cluster, all is annex up.
	ours, sample *extension
	all          *up
	// closing are clients that would complain when their server is gone; started are ended in reverse order.
	closing []io.Closer
	started []*cluster.Process
}

func newServers(ctx context.Context, s settings) (*servers, error) {
	bin, err := cluster.Build(ctx, s.root, os.Stderr)
	if err != nil {
		return nil, err
	}
	binary := s.binary
	if binary == "" {
		if binary, err = framework.AnnexFor(s.root); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "annex-bench-")
	if err != nil {
		return nil, err
	}
	return &servers{settings: s, dir: dir, bin: bin, binary: binary}, nil
}

// stop ends everything. What was stored goes with it, so nothing needs a warning.
func (s *servers) stop() {
	for _, client := range s.closing {
		_ = client.Close()
	}
	for _, process := range slices.Backward(s.started) {
		process.Kill()
	}
	if s.etcd != nil {
		s.etcd.Stop()
	}
	if s.cluster != nil {
		s.cluster.Stop()
	}
	if err := os.RemoveAll(s.dir); err != nil {
		say("%v", err)
	}
}

func (s *servers) start(name, binary string, args ...string) (*cluster.Process, error) {
	process, err := cluster.StartProcess(name, filepath.Join(s.dir, name+".log"), binary, args...)
	if err == nil {
		s.started = append(s.started, process)
	}
	return process, err
}

// theCluster is kube-apiserver with an etcd of its own.
func (s *servers) theCluster(ctx context.Context) (*cluster.Cluster, error) {
	if s.cluster != nil {
		return s.cluster, nil
	}
	options := cluster.Options{Dir: filepath.Join(s.dir, "cluster"), Bin: s.bin, EtcdArgs: []string{writesToDisk}}
	var err error
	s.cluster, err = cluster.Start(ctx, options)
	return s.cluster, err
}

// writesToDisk takes back what test/framework/cluster spares tests: each etcd is what users have.
const writesToDisk = "--unsafe-no-fsync=false"

// theEtcd is the one of all peers but those in the cluster, and of annex up.
func (s *servers) theEtcd(ctx context.Context) (*cluster.Etcd, error) {
	if s.etcd != nil {
		return s.etcd, nil
	}
	dir := filepath.Join(s.dir, "etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	s.etcd, err = cluster.StartEtcd(ctx, s.bin, dir, 1, writesToDisk)
	return s.etcd, err
}

// authority signs the certificates of servers and users outside the cluster.
func (s *servers) authority() (*pki.Authority, error) {
	if s.pki == nil {
		var err error
		if s.pki, err = pki.Open(filepath.Join(s.dir, "pki")); err != nil {
			return nil, err
		}
	}
	return s.pki.Authority("ca", "bench-ca")
}

// serving returns flags with which a server gets a free port and a certificate for it.
func (s *servers) serving(name string, hosts ...string) (port int, flags []string, err error) {
	authority, err := s.authority()
	if err != nil {
		return 0, nil, err
	}
	pair, err := authority.Serving(name, append(hosts, "localhost", "127.0.0.1")...)
	if err != nil {
		return 0, nil, err
	}
	if port, err = cluster.FreePort(); err != nil {
		return 0, nil, err
	}
	return port, []string{
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--tls-cert-file=" + pair.CertFile, "--tls-private-key-file=" + pair.KeyFile,
	}, nil
}

// at returns the client configuration for a server of our own authority, as the same user.
func (s *servers) at(port int, as *rest.Config) (*rest.Config, error) {
	authority, err := s.authority()
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(as)
	config.Host = "https://localhost:" + strconv.Itoa(port)
	config.CAFile, config.CAData = authority.CertFile(), nil
	return config, nil
}

// waitServed waits until a peer serves its objects.
func (p *peer) waitServed(ctx context.Context, process *cluster.Process) error {
	return process.Await(ctx, startTimeout, func(ctx context.Context) error {
		_, err := p.clients[0].do(ctx, request{method: "GET", path: p.kind.path + "?limit=1"})
		return err
	})
}
