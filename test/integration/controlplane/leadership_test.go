// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
)

// replica is one of several control planes on one store.
type replica struct {
	client kubernetes.Interface
	owner  string
	cancel context.CancelFunc
	ended  chan error
}

// startReplicas runs control planes on one store, the first of which leads.
func startReplicas(t *testing.T, owners ...string) []*replica {
	t.Helper()
	h := newHost(t, nil)
	completed, err := etcd.NewOptions().Complete(filepath.Join(h.Dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	backend, err := completed.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(backend.Stop)
	var replicas []*replica
	for _, owner := range owners {
		h.Adjust = func(o *controlplane.Options) { o.Leadership.StoreID = owner }
		server := controlplane.New(h.Options(), backend)
		ctx, cancel := context.WithCancel(context.Background())
		r := &replica{client: core(t, h.Admin()), owner: owner, cancel: cancel, ended: make(chan error, 1)}
		go func() { r.ended <- server.Run(ctx) }()
		t.Cleanup(func() { r.stop(t) })
		select {
		case <-server.Ready():
		case <-time.After(patience):
			t.Fatalf("the replica %s is not ready; it may only be a follower, which is no reason", owner)
		}
		if len(replicas) == 0 {
			eventually(t, func() error { return r.says("controlplane: leading") })
		}
		replicas = append(replicas, r)
	}
	return replicas
}

func (r *replica) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("the replica %s ended with %v", r.owner, err)
		}
		r.ended <- nil
	case <-time.After(patience):
		t.Fatalf("the replica %s did not stop", r.owner)
	}
}

// says returns nil if the replica's /healthz/leadership has the text.
func (r *replica) says(text string) error {
	body, err := r.client.CoordinationV1().RESTClient().Get().AbsPath("/healthz/leadership").DoRaw(context.Background())
	if err != nil {
		return err
	}
	if !strings.Contains(string(body), text) {
		return fmt.Errorf("/healthz/leadership of %s is %q, want %q", r.owner, body, text)
	}
	return nil
}

func (r *replica) lease(t *testing.T) coordinationv1.LeaseSpec {
	t.Helper()
	lease, err := r.client.CoordinationV1().Leases("kube-system").Get(t.Context(), "annex-controlplane", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease.Spec
}

func (r *replica) holder(t *testing.T) string {
	t.Helper()
	return ptr.Deref(r.lease(t).HolderIdentity, "")
}

func TestAFollowerIsReadyAndRunsNothing(t *testing.T) {
	t.Parallel()
	replicas := startReplicas(t, "leader", "follower")
	leader, follower := replicas[0], replicas[1]
	eventually(t, func() error { return follower.says("controlplane: follower") })
	eventually(t, func() error { return follower.says(leader.holder(t)) })

	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	labels := regexp.MustCompile(`"leadership_term":"[^"]*_(leader|follower)\.[^"]*"`).FindAllStringSubmatch(profile.String(), -1)
	if len(labels) == 0 {
		t.Error("no goroutine carries the label of the leader's term, so this test sees nothing")
	}
	for _, label := range labels {
		if label[1] != "leader" {
			t.Errorf("a goroutine of the follower carries %s", label[0])
		}
	}
}

// TestTwoControlPlanesOnOneBackendHaveOneLeader has both own the data directory of the backend.
func TestTwoControlPlanesOnOneBackendHaveOneLeader(t *testing.T) {
	t.Parallel()
	replicas := startReplicas(t, "", "")
	leader, follower := replicas[0], replicas[1]
	first := leader.lease(t)
	eventually(t, func() error {
		if lease := leader.lease(t); lease.RenewTime.Equal(first.RenewTime) {
			return fmt.Errorf("the Lease was not renewed: %v", lease)
		}
		return nil
	})
	if now := leader.lease(t); *now.HolderIdentity != *first.HolderIdentity || *now.LeaseTransitions != *first.LeaseTransitions {
		t.Errorf("the Lease was taken from a leader at work: it was %v and is %v", first, now)
	}
	eventually(t, func() error { return follower.says("controlplane: follower") })
	eventually(t, func() error { return leader.says("controlplane: leading") })
}

func TestTheLeaseIsReleasedBeforeTheServerStops(t *testing.T) {
	t.Parallel()
	replicas := startReplicas(t, "first", "second")
	former := replicas[0].holder(t)
	replicas[0].stop(t)
	if holder := replicas[1].holder(t); holder == former {
		t.Errorf("%s still holds the Lease after its server has stopped", holder)
	}
	eventually(t, func() error { return replicas[1].says("controlplane: leading") })
}
