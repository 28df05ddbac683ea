// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// The program minimal-controlplane is a control plane of one's own, with a kind of its own beside the native ones: everything that a
// Kubernetes API has, from RBAC and admission policies to garbage collection, around the notes of note.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
)

func main() {
	dir := flag.String("data-dir", "minimal-data", "Directory for the store, the certificates and the kubeconfig.")
	port := flag.Int("port", 6443, "Port to listen on; 0 for any free one.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	authority := must(must(pki.Open(filepath.Join(*dir, "pki"))).Authority("ca", "minimal-ca"))
	serving := must(authority.Serving("serving", "localhost", "127.0.0.1"))
	admin := must(authority.Client("admin", "admin", "system:masters"))

	o := controlplane.NewOptions()
	o.Serving.BindAddress, o.Serving.Port = net.IPv4(127, 0, 0, 1), *port
	o.Serving.CertFile, o.Serving.KeyFile = serving.CertFile, serving.KeyFile
	o.Serving.Listener = must(o.Serving.Listen(ctx))
	o.ClientCAFile = authority.CertFile()
	o.AdditionalGroups = []native.Group{notesGroup()}
	o.DisableAggregator = true
	completed := must(o.Complete())

	store := must(must(etcd.NewOptions().Complete(*dir)).Start(ctx))
	defer store.Stop()
	kubeconfig := filepath.Join(*dir, "kubeconfig")
	url := "https://" + o.Serving.Listener.Addr().String()
	must(url, pki.WriteKubeconfig(kubeconfig, url, authority.CertFile(), admin))
	server := controlplane.New(completed, store)
	go func() {
		<-server.Ready()
		fmt.Printf("ready: kubectl --kubeconfig %s get notes\n", kubeconfig)
	}()
	must(url, server.Run(ctx))
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}
