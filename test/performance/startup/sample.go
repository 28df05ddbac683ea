// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework/cluster"
)

// sample is Kubernetes' sample of a control plane. Its etcd runs already when it is started, and its certificates are there.
type sample struct {
	settings settings
	dir      string
	port     int
	args     []string
	client   rest.TLSClientConfig
	etcd     *cluster.Etcd
	process  *cluster.Process
	probe    *probe
}

func (s settings) newSample() (server, error) {
	dir, err := os.MkdirTemp(s.dir, "sample-")
	if err != nil {
		return nil, err
	}
	directory, err := pki.Open(filepath.Join(dir, "pki"))
	if err != nil {
		return nil, err
	}
	authority, err := directory.Authority("ca", "bench-ca")
	if err != nil {
		return nil, err
	}
	serving, servingErr := authority.Serving("serving", "localhost", "127.0.0.1")
	accounts, accountsErr := authority.Serving("service-accounts", "localhost")
	admin, adminErr := authority.Client("admin", "admin", "system:masters")
	port, portErr := cluster.FreePort()
	etcdErr := os.MkdirAll(filepath.Join(dir, "etcd"), 0o700)
	if err := errors.Join(servingErr, accountsErr, adminErr, portErr, etcdErr); err != nil {
		return nil, err
	}
	return &sample{
		settings: s, dir: dir, port: port,
		client: rest.TLSClientConfig{CAFile: authority.CertFile(), CertFile: admin.CertFile, KeyFile: admin.KeyFile},
		args: []string{
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--tls-cert-file=" + serving.CertFile, "--tls-private-key-file=" + serving.KeyFile,
			"--client-ca-file=" + authority.CertFile(), "--authorization-mode=RBAC", "--service-account-issuer=https://localhost",
			"--service-account-key-file=" + accounts.CertFile, "--service-account-signing-key-file=" + accounts.KeyFile, "--cert-dir=" + filepath.Join(dir, "pki"),
		},
	}, nil
}

func (s *sample) name() string { return nameSample }

func (s *sample) start(ctx context.Context) (time.Duration, error) {
	if s.etcd == nil {
		etcd, err := cluster.StartEtcd(ctx, s.settings.bin, filepath.Join(s.dir, "etcd"), 1, "--unsafe-no-fsync=false")
		if err != nil {
			return 0, err
		}
		s.etcd = etcd
	}
	began := time.Now()
	process, err := cluster.StartProcess(nameSample, filepath.Join(s.dir, "log"), filepath.Join(s.settings.bin, cluster.GenericControlPlane),
		append([]string{"--etcd-servers=" + s.etcd.Servers()}, s.args...)...)
	if err != nil {
		return 0, err
	}
	s.process = process
	s.probe = &probe{process: process, connect: func() (*rest.Config, error) {
		return &rest.Config{Host: "https://127.0.0.1:" + strconv.Itoa(s.port), TLSClientConfig: s.client}, nil
	}}
	return s.probe.untilAvailable(ctx, began, 0)
}

func (s *sample) phases() map[string]float64 { return nil }

func (s *sample) processes() map[string]int {
	return map[string]int{nameSample: s.process.Pid(), nameEtcd: s.etcd.Member(0).Pid()}
}

func (s *sample) metrics(ctx context.Context) (map[string]float64, error) {
	return s.probe.metrics(ctx)
}

func (s *sample) stop() error {
	s.probe.close()
	return s.process.Stop()
}

func (s *sample) remove() {
	if s.process != nil {
		s.process.Kill()
	}
	if s.etcd != nil {
		s.etcd.Stop()
	}
	_ = os.RemoveAll(s.dir)
}
