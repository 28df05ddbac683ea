// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
)

// TestClaimsTakeNoConnection has all that users ask of the extension apiserver's kinds through the host done in memory: of half a
// megabyte that they write, next to nothing passes the listener. To the listener itself everybody may go, as before.
func TestClaimsTakeNoConnection(t *testing.T) {
	t.Parallel()
	counting := &countingListener{}
	r := begin(t, t.TempDir(), func(o *Options) {
		counting.Listener = o.Extension.Serving.Listener
		o.Extension.Serving.Listener = counting
	})
	r.waitReady(t)
	config := r.server.AdminConfig()
	config.QPS = -1
	claims := versioned.NewForConfigOrDie(config).MulticlusterV1alpha1().ClusterClaims()
	follow, err := claims.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer follow.Stop()

	const count, size = 10, 50_000
	before := counting.read.Load()
	for i := range count {
		claim := &v1alpha1.ClusterClaim{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d.example.com", i)}, Spec: v1alpha1.ClusterClaimSpec{Value: strings.Repeat("x", size)},
		}
		if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if event := <-follow.ResultChan(); event.Type != watch.Added {
			t.Fatalf("the watch says %s %v, want the claim", event.Type, event.Object)
		}
	}
	if passed := counting.read.Load() - before; passed > count*size/10 {
		t.Errorf("%d bytes passed the extension apiserver's listener while %d were written", passed, count*size)
	}
	// Its own refusals arrive unchanged, and so does whom it takes the user for.
	jane := r.server.AdminConfig()
	jane.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	_, err = versioned.NewForConfigOrDie(jane).MulticlusterV1alpha1().ClusterClaims().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "jane" cannot list`) {
		t.Errorf("jane, who may do nothing, got %v", err)
	}
	if _, err := claims.Get(t.Context(), "none.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a claim that is not there: %v", err)
	}
}

// countingListener counts what its connections read.
type countingListener struct {
	net.Listener

	read atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConnection{Conn: connection, read: &l.read}, nil
}

type countingConnection struct {
	net.Conn

	read *atomic.Int64
}

func (c *countingConnection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}
