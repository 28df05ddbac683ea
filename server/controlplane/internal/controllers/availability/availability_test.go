// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package availability_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/availability"
)

// dropping resets connections once it has read something, so that each attempt fails with the addresses of its own.
type dropping struct {
	net.Listener
	attempts atomic.Int32
}

func (d *dropping) serve() {
	for {
		connection, err := d.Accept()
		if err != nil {
			return
		}
		_, _ = connection.Read(make([]byte, 1))
		_ = connection.(*net.TCPConn).SetLinger(0)
		_ = connection.Close()
		d.attempts.Add(1)
	}
}

func (d *dropping) ResolveEndpoint(string, string, int32) (*url.URL, error) {
	return &url.URL{Scheme: "https", Host: d.Addr().String()}, nil
}

func TestOneReasonIsWrittenOnce(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dropping{Listener: listener}
	var running sync.WaitGroup
	running.Go(server.serve)

	client := fake.NewClientset(&apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "example.com", Version: "v1", InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "a", Name: "b", Port: ptr.To[int32](443)},
		},
	}, &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.local.example.com"},
		Spec:       apiregistrationv1.APIServiceSpec{Group: "local.example.com", Version: "v1"},
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	controller := availability.New(factory.Apiregistration().V1().APIServices(), client.ApiregistrationV1(), remoteservers.Servers{Resolver: server})
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	running.Go(func() {
		if err := controller.Run(ctx); err != nil {
			t.Error(err)
		}
	})

	deadline := time.Now().Add(20 * time.Second)
	for server.attempts.Load() < 5 {
		if time.Now().After(deadline) {
			t.Fatalf("the server was asked %d times", server.attempts.Load())
		}
		<-time.After(10 * time.Millisecond)
	}
	cancel()
	_ = listener.Close()
	running.Wait()
	factory.Shutdown()

	var writes []string
	for _, action := range client.Actions() {
		if action.GetVerb() == "update" {
			writes = append(writes, fmt.Sprintf("%s/%s", action.GetResource().Resource, action.GetSubresource()))
		}
	}
	if len(writes) != 1 || writes[0] != "apiservices/status" {
		t.Errorf("wrote %v, want the status once", writes)
	}
	service, err := client.ApiregistrationV1().APIServices().Get(t.Context(), "v1.example.com", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	condition := service.Status.Conditions[0]
	if condition.Status != "False" || condition.Reason != "FailedDiscoveryCheck" || !strings.Contains(condition.Message, listener.Addr().String()) {
		t.Errorf("got %+v", condition)
	}
}
