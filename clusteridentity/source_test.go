// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusteridentity

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned/fake"
)

// patience is how long anything may take on a busy machine.
const patience = time.Minute

func in(id, set string) Identity { return Identity{Known: true, ID: id, ClusterSet: set} }

func receive(t *testing.T, changes <-chan Identity) Identity {
	t.Helper()
	select {
	case identity, open := <-changes:
		if !open {
			t.Fatal("the channel is closed")
		}
		return identity
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	return Identity{}
}

func TestSlowReadersGetTheLatestAndHoldUpNobody(t *testing.T) {
	t.Parallel()
	s := New()
	ctx, cancel := context.WithCancel(t.Context())
	slow, quick, late := s.Changes(ctx), s.Changes(t.Context()), (<-chan Identity)(nil)
	select {
	case early := <-slow:
		t.Fatalf("%v was told before anything was known", early)
	default:
	}
	for _, next := range []Identity{in("1", ""), in("1", "a"), in("1", ""), in("2", ""), in("2", "b")} {
		s.publish(next)
		if got := receive(t, quick); got != next {
			t.Errorf("got %v, want %v", got, next)
		}
		if s.publish(next) {
			t.Error("what has not changed was told again")
		}
	}
	late = s.Changes(t.Context())
	for name, changes := range map[string]<-chan Identity{"slow": slow, "late": late} {
		if got := receive(t, changes); got != in("2", "b") {
			t.Errorf("the %s reader got %v", name, got)
		}
	}
	cancel()
	for open := true; open; {
		select {
		case _, open = <-slow:
		case <-time.After(patience):
			t.Fatal("the channel was not closed")
		}
	}
	s.publish(in("3", ""))
	if got := receive(t, late); got != in("3", "") {
		t.Errorf("after another reader had gone, got %v", got)
	}
}

// TestReadersComeAndGo is for the race detector.
func TestReadersComeAndGo(t *testing.T) {
	t.Parallel()
	s := New()
	var work sync.WaitGroup
	last := in("last", "")
	for range 8 {
		work.Go(func() {
			for range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				s.Changes(ctx)
				cancel()
			}
			for identity := range s.Changes(t.Context()) {
				if s.Current(); identity == last {
					return
				}
			}
		})
	}
	for i := range 1000 {
		s.publish(in(strings.Repeat("x", i%9+1), ""))
	}
	s.publish(last)
	work.Wait()
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	s := New()
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time"))
	wantError := func(want string, wait func(context.Context) (Identity, error)) {
		t.Helper()
		if _, err := wait(gone); err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	wantError("the ClusterClaims were not read: no time; call Run beside it", s.WaitForID)
	s.running.Store(true)
	wantError("the ClusterClaims were not read in time: no time", s.WaitForMembership)
	s.troubles.note(quiet, "list", errors.New("nobody is there"))
	wantError("the ClusterClaims could not be read: no time (nobody is there)", s.WaitForMembership)
	s.publish(in("", ""))
	wantError("the cluster has no id: no time; create the ClusterClaim id.k8s.io", s.WaitForID)

	waiters := map[string]func(context.Context) (Identity, error){"id": s.WaitForID, "membership": s.WaitForMembership}
	got := map[string]chan Identity{}
	for name, wait := range waiters {
		got[name] = make(chan Identity, 1)
		go func() {
			identity, err := wait(t.Context())
			if err != nil {
				t.Error(err)
			}
			got[name] <- identity
		}()
	}
	s.publish(in("1", ""))
	if identity := receive(t, got["id"]); identity != in("1", "") {
		t.Errorf("the id is that of %v", identity)
	}
	s.publish(in("1", "a"))
	if identity := receive(t, got["membership"]); identity != in("1", "a") {
		t.Errorf("the membership is that of %v", identity)
	}
	s.publish(in("1", ""))
	wantError("the cluster is in no set: no time; create the ClusterClaim clusterset.k8s.io to join one", s.WaitForMembership)
}

// TestWithoutAPI runs a source that never reaches anything, twice, and leaves no goroutine behind.
func TestWithoutAPI(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	tried := make(chan struct{}, 100)
	config := &rest.Config{Host: "https://127.0.0.1:1", Dial: func(context.Context, string, string) (net.Conn, error) {
		select {
		case tried <- struct{}{}:
		default:
		}
		return nil, errors.New("nobody is there")
	}}
	s := New()
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, config) }()
		for range 4 {
			<-tried
		}
		for s.Trouble() == nil {
			<-tried
		}
		if err := s.Trouble(); !strings.Contains(err.Error(), "nobody is there") {
			t.Errorf("the trouble is %v", err)
		}
		if err := s.Run(ctx, config); err == nil || !strings.Contains(err.Error(), "call Run once") {
			t.Errorf("a second Run: %v", err)
		}
		if s.Current().Known {
			t.Errorf("%v is known", s.Current())
		}
		cancel()
		if err := <-ended; err != nil || s.Trouble() != nil {
			t.Errorf("Run ended with %v, trouble %v", err, s.Trouble())
		}
	}
	if err := s.Run(t.Context(), nil); err == nil {
		t.Error("Run without a configuration")
	}
	if err := s.RunWith(t.Context(), nil); err == nil {
		t.Error("RunWith without a client")
	}
}

// TestWithAFakeClient is how programs test what they do with a source.
func TestWithAFakeClient(t *testing.T) {
	t.Parallel()
	object := func(name, value string) *v1alpha1.ClusterClaim {
		return &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterClaimSpec{Value: value}}
	}
	client := fake.NewClientset(object("other", "x"), object("id.k8s.io", "1"))
	claims := client.MulticlusterV1alpha1().ClusterClaims()
	s := New()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.RunWith(ctx, client) }()
	changes := s.Changes(ctx)
	if got := receive(t, changes); got != in("1", "") {
		t.Errorf("got %v", got)
	}
	if _, err := claims.Create(ctx, object("clusterset.k8s.io", "a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, changes); got != in("1", "a") {
		t.Errorf("got %v", got)
	}
	// A server that lets go of the id first is not Annex; a cluster without an id is then in no set.
	if err := claims.Delete(ctx, "id.k8s.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, changes); got != in("", "") {
		t.Errorf("got %v", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
