// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/test/framework/cluster"
)

// up is annex up: etcd, control plane and extension apiserver in one process.
type up struct {
	process *cluster.Process
	config  *rest.Config
	port    int
}

const storeOfUp = "annex up"

func (s *servers) annexUp(ctx context.Context) (*up, error) {
	if s.all != nil {
		return s.all, nil
	}
	port, err := cluster.FreePort()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.dir, "annex-up")
	process, err := s.start("annex-up", s.binary, "up", "--data-dir="+dir, "--secure-port=0", "--extension-port="+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, startTimeout, true, func(context.Context) (bool, error) {
		select {
		case <-process.Done():
			return false, fmt.Errorf("it ended")
		default:
		}
		return strings.Contains(process.Log(), "export KUBECONFIG="), nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for annex up: %w; the end of its log:\n%s", err, process.Tail(20))
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	s.all = &up{process: process, config: config, port: port}
	return s.all, err
}

func (s *servers) upDirect(ctx context.Context) (*peer, error) {
	all, err := s.annexUp(ctx)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(all.config)
	config.Host = "https://127.0.0.1:" + strconv.Itoa(all.port)
	return s.ofUp(ctx, all, config)
}

func (s *servers) upThrough(ctx context.Context) (*peer, error) {
	all, err := s.annexUp(ctx)
	if err != nil {
		return nil, err
	}
	return s.ofUp(ctx, all, all.config)
}

func (s *servers) ofUp(ctx context.Context, all *up, config *rest.Config) (*peer, error) {
	p := &peer{name: storeOfUp, store: storeOfUp, parts: []part{{roleServer, all.process.Pid()}}}
	p, err := p.overHTTP(s.settings, config, claims)
	if err != nil {
		return nil, err
	}
	return p, p.waitServed(ctx, all.process)
}

// sampleControlPlane is Kubernetes' own sample of a control plane without containers, with the CRD.
func (s *servers) sampleControlPlane(ctx context.Context) (*peer, error) {
	etcd, err := s.theEtcd(ctx)
	if err != nil {
		return nil, err
	}
	if _, err = cluster.BuildSamples(ctx, s.settings.root, os.Stderr); err != nil {
		return nil, err
	}
	port, serving, err := s.serving("sample-controlplane")
	if err != nil {
		return nil, err
	}
	authority, err := s.authority()
	if err != nil {
		return nil, err
	}
	accounts, err := authority.Serving("service-accounts", "localhost")
	if err != nil {
		return nil, err
	}
	admin, err := authority.Client("admin", "admin", "system:masters")
	if err != nil {
		return nil, err
	}
	ca := authority.CertFile()
	args := append([]string{
		"--etcd-servers=" + etcd.Servers(), "--etcd-prefix=/sample-controlplane", "--client-ca-file=" + ca, "--authorization-mode=RBAC",
		"--service-account-issuer=https://localhost", "--service-account-key-file=" + accounts.CertFile, "--service-account-signing-key-file=" + accounts.KeyFile,
		"--cert-dir=" + filepath.Join(s.dir, "pki"),
	}, serving...)
	process, err := s.start("sample-controlplane", filepath.Join(s.bin, cluster.GenericControlPlane), args...)
	if err != nil {
		return nil, err
	}
	config := &rest.Config{
		Host: "https://127.0.0.1:" + strconv.Itoa(port), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: ca, CertFile: admin.CertFile, KeyFile: admin.KeyFile},
	}
	p := &peer{name: "sample control plane", store: "sample control plane", parts: []part{{roleServer, process.Pid()}, {roleEtcd, etcd.Member(0).Pid()}}}
	if p, err = p.overHTTP(s.settings, config, customs); err != nil {
		return nil, err
	}
	if err := waitReady(ctx, p, process); err != nil {
		return nil, err
	}
	if err := createCRD(ctx, config); err != nil {
		return nil, err
	}
	return p, p.waitServed(ctx, process)
}

func waitReady(ctx context.Context, p *peer, process *cluster.Process) error {
	return process.Await(ctx, startTimeout, func(ctx context.Context) error {
		_, err := p.admin.do(ctx, request{method: "GET", path: "/readyz"})
		return err
	})
}
