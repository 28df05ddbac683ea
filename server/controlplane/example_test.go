// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"fmt"
	"net"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	kubeuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
)

// Example runs a control plane with an embedded etcd and creates a namespace.
func Example() {
	if err := runExample(); err != nil {
		fmt.Println(err)
	}
	// Output: created namespace team-a
}

func runExample() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dir, err := os.MkdirTemp("", "controlplane")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	// Without certificate files the server creates a self-signed certificate. A program for production sets ClientCAFile instead of a token.
	o := controlplane.NewOptions()
	o.Serving.BindAddress, o.Serving.Port = net.IPv4(127, 0, 0, 1), 0
	if o.Serving.Listener, err = o.Serving.Listen(ctx); err != nil {
		return err
	}
	tokens := tokenfile.New(map[string]*kubeuser.DefaultInfo{"secret": {Name: "admin", Groups: []string{kubeuser.SystemPrivilegedGroup}}})
	o.Authenticators = []authenticator.Request{bearertoken.New(tokens)}
	completed, err := o.Complete()
	if err != nil {
		return err
	}
	store, err := etcd.NewOptions().Complete(dir)
	if err != nil {
		return err
	}
	backend, err := store.Start(ctx)
	if err != nil {
		return err
	}
	defer backend.Stop()

	server := controlplane.New(completed, backend)
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	select {
	case <-server.Ready():
	case err = <-ended:
		return err
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://" + o.Serving.Listener.Addr().String(), BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	})
	if err != nil {
		return err
	}
	namespace, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	fmt.Println("created namespace", namespace.Name)
	cancel()
	return <-ended
}
