// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// The program minimal-controlplane is a control plane of one's own, with a kind of its own beside the native ones: everything that a
// Kubernetes API has, from RBAC and admission policies to garbage collection, around the notes of note.go.
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
)

func main() {
	dir := flag.String("data-dir", "minimal-data", "Directory for the store, the certificates and the kubeconfig.")
	port := flag.Int("port", 6443, "Port to listen on; 0 for any free one.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	// The certificate and the token last until the program ends; the kubeconfig has both.
	loopback := net.IPv4(127, 0, 0, 1)
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{loopback}, nil)
	must(certificate, err)
	token := rand.Text()
	admins := tokenfile.New(map[string]*user.DefaultInfo{token: {Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}})

	o := controlplane.NewOptions()
	o.Serving.BindAddress, o.Serving.Port = loopback, *port
	o.Serving.CertFile, o.Serving.KeyFile = filepath.Join(*dir, "serving.crt"), filepath.Join(*dir, "serving.key")
	must(*dir, os.MkdirAll(*dir, 0o700))
	must(certificate, cert.WriteCert(o.Serving.CertFile, certificate))
	must(key, keyutil.WriteKey(o.Serving.KeyFile, key))
	o.Serving.Listener = must(o.Serving.Listen(ctx))
	o.Authenticators = []authenticator.Request{bearertoken.New(admins)}
	o.AdditionalGroups = []native.Group{notesGroup()}
	o.DisableAggregator = true
	completed := must(o.Complete())

	store := must(must(etcd.NewOptions().Complete(*dir)).Start(ctx))
	defer store.Stop()
	kubeconfig := filepath.Join(*dir, "kubeconfig")
	url := "https://" + o.Serving.Listener.Addr().String()
	must(url, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"minimal": {Server: url, CertificateAuthorityData: certificate}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"admin": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"minimal": {Cluster: "minimal", AuthInfo: "admin"}},
		CurrentContext: "minimal",
	}, kubeconfig))
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
