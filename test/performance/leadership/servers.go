// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/test/framework/cluster"
)

// server has the Leases.
type server struct {
	name       string
	config     *rest.Config
	kubeconfig string
}

// annex is `annex up` as a process of its own.
type annex struct {
	server
	process *cluster.Process
}

func startAnnex(ctx context.Context, s settings) (*annex, error) {
	binary, data := filepath.Join(s.dir, "annex"), filepath.Join(s.dir, "data")
	if err := build(ctx, s.root, binary, "./cmd/annex"); err != nil {
		return nil, err
	}
	process, err := cluster.StartProcess("annex", filepath.Join(s.dir, "annex.log"), binary,
		"up", "--data-dir", data, "--secure-port", "0", "--extension-port", "0")
	if err != nil {
		return nil, err
	}
	if err = process.AwaitLog(ctx, time.Minute, "export KUBECONFIG="); err != nil {
		process.Kill()
		return nil, err
	}
	out := &annex{process: process, server: server{name: "Annex's control plane", kubeconfig: filepath.Join(data, "kubeconfig")}}
	out.config, err = clientcmd.BuildConfigFromFlags("", out.kubeconfig)
	return out, err
}

func (a *annex) stop() {
	if err := a.process.Stop(); err != nil {
		progress("%v", err)
	}
}

// client returns a configuration with a connection of its own, whose requests go through a tap.
func (s server) client(t *tap) *rest.Config {
	config := rest.CopyConfig(s.config)
	config.QPS = -1
	config.ContentType = "application/json"                            // the tap reads it
	config.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext // one of its own keeps transports from being shared
	config.Wrap(t.wrap)
	return config
}
