// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"strconv"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applyv1 "k8s.io/client-go/applyconfigurations/coordination/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/registry/native/coordination"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

// fenced is a Lease with its fence key.
type fenced struct {
	t       *testing.T
	server  *resourcetest.Server
	leases  coordinationclient.LeaseInterface
	name    string
	current *coordinationv1.Lease
}

func startFenced(t *testing.T, server *resourcetest.Server, namespace string) *fenced {
	t.Helper()
	client, err := coordinationclient.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &fenced{t: t, server: server, leases: client.Leases(namespace), name: namespace + "/leader"}
}

// did takes over what a write returned.
func (f *fenced) did(lease *coordinationv1.Lease, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	f.current = lease
}

// fence returns what the fence key holds and since which revision; 0 means that it is not there.
func (f *fenced) fence() (string, int64) {
	f.t.Helper()
	// The key is the same for all servers on one etcd; each test has a namespace of its own.
	response, err := f.server.Etcd.Get(f.t.Context(), "/annex.io/fences/"+f.name)
	if err != nil {
		f.t.Fatal(err)
	}
	if len(response.Kvs) == 0 {
		return "", 0
	}
	return string(response.Kvs[0].Value), response.Kvs[0].ModRevision
}

// want checks the fence key after a write of the Lease: what it holds, and whether it was written with it.
func (f *fenced) want(what, value string, together bool) {
	f.t.Helper()
	got, revision := f.fence()
	if want := string(f.current.UID) + ";" + value; got != want {
		f.t.Fatalf("%s: the fence key holds %q, want %q", what, got, want)
	}
	if (strconv.FormatInt(revision, 10) == f.current.ResourceVersion) != together {
		f.t.Fatalf("%s: the fence key is of revision %d and the Lease of %s; written together should be %t", what, revision, f.current.ResourceVersion, together)
	}
}

func (f *fenced) wantNone(what string) {
	f.t.Helper()
	if got, revision := f.fence(); revision != 0 {
		f.t.Fatalf("%s: the fence key holds %q, want none", what, got)
	}
}

func leaseOf(holder string, transitions int32) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "leader"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions},
	}
}

func TestFenceKeyFollowsTheLease(t *testing.T) {
	t.Parallel()
	f := startFenced(t, start(t, coordination.GroupVersion, coordination.Kinds()), "follows")
	ctx := t.Context()
	dry := []string{metav1.DryRunAll}

	if _, err := f.leases.Create(ctx, leaseOf("one", 0), metav1.CreateOptions{DryRun: dry}); err != nil {
		t.Fatal(err)
	}
	f.wantNone("dry-run create")
	f.did(f.leases.Create(ctx, leaseOf("one", 0), metav1.CreateOptions{}))
	f.want("create", "0;one", true)

	for _, seconds := range []int32{15, 16} {
		f.current.Spec.LeaseDurationSeconds = &seconds
		now := metav1.NowMicro()
		f.current.Spec.RenewTime = &now
		f.did(f.leases.Update(ctx, f.current, metav1.UpdateOptions{}))
		f.want("renewal", "0;one", false)
	}
	f.current.Spec.HolderIdentity, f.current.Spec.LeaseTransitions = ptr.To("two"), ptr.To[int32](1)
	if _, err := f.leases.Update(ctx, f.current, metav1.UpdateOptions{DryRun: dry}); err != nil {
		t.Fatal(err)
	}
	if got, _ := f.fence(); got != string(f.current.UID)+";0;one" {
		t.Fatalf("dry-run update: the fence key holds %q", got)
	}
	f.did(f.leases.Update(ctx, f.current, metav1.UpdateOptions{}))
	f.want("hand-over by PUT", "1;two", true)
	f.did(f.leases.Patch(ctx, "leader", types.MergePatchType, []byte(`{"spec":{"leaseTransitions":2}}`), metav1.PatchOptions{}))
	f.want("transitions by merge patch", "2;two", true)
	f.did(f.leases.Patch(ctx, "leader", types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/holderIdentity","value":"three"}]`), metav1.PatchOptions{}))
	f.want("holder by JSON patch", "2;three", true)
	f.did(f.leases.Apply(ctx, applyv1.Lease("leader", "follows").WithSpec(applyv1.LeaseSpec().WithHolderIdentity("four;4")), metav1.ApplyOptions{FieldManager: "test", Force: true}))
	f.want("holder by apply", "2;four;4", true)
	f.did(f.leases.Patch(ctx, "leader", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))
	f.want("another field by patch", "2;four;4", false)
	f.did(f.leases.Patch(ctx, "leader", types.MergePatchType, []byte(`{"spec":{"holderIdentity":null}}`), metav1.PatchOptions{}))
	f.want("release", "2;", true)

	if err := f.leases.Delete(ctx, "leader", metav1.DeleteOptions{DryRun: dry}); err != nil {
		t.Fatal(err)
	}
	f.want("dry-run delete", "2;", true)
	if err := f.leases.Delete(ctx, "leader", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.wantNone("delete")
	f.did(f.leases.Update(ctx, leaseOf("five", 3), metav1.UpdateOptions{}))
	f.want("create by PUT", "3;five", true)
	if err := f.leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	f.wantNone("deletecollection")
	f.did(f.leases.Apply(ctx, applyv1.Lease("leader", "follows").WithSpec(applyv1.LeaseSpec().WithHolderIdentity("six")), metav1.ApplyOptions{FieldManager: "test"}))
	f.want("create by apply", "0;six", true)
}

func TestFenceKeyGoesWithTheLastFinalizer(t *testing.T) {
	t.Parallel()
	f := startFenced(t, start(t, coordination.GroupVersion, coordination.Kinds()), "finalizers")
	for how, remove := range map[string]func() error{
		"PUT": func() error {
			f.current.Finalizers = nil
			_, err := f.leases.Update(t.Context(), f.current, metav1.UpdateOptions{})
			return err
		},
		"patch": func() error {
			_, err := f.leases.Patch(t.Context(), "leader", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			return err
		},
	} {
		held := leaseOf("one", 0)
		held.Finalizers = []string{"annex.test/hold"}
		f.did(f.leases.Create(t.Context(), held, metav1.CreateOptions{}))
		if err := f.leases.Delete(t.Context(), "leader", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		f.did(f.leases.Get(t.Context(), "leader", metav1.GetOptions{}))
		f.want("deletion that waits for a finalizer", "0;one", false)
		f.did(f.leases.Patch(t.Context(), "leader", types.MergePatchType, []byte(`{"spec":{"leaseTransitions":1}}`), metav1.PatchOptions{}))
		f.want("change while it waits", "1;one", true)
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		f.wantNone("removal of the last finalizer by " + how)
	}
}

// TestFenceKeyIsMadeUpFor has a Lease that a version without fence keys has written.
func TestFenceKeyIsMadeUpFor(t *testing.T) {
	t.Parallel()
	f := startFenced(t, start(t, coordination.GroupVersion, coordination.Kinds()), "upgraded")
	f.did(f.leases.Create(t.Context(), leaseOf("one", 0), metav1.CreateOptions{}))
	if _, err := f.server.Etcd.Delete(t.Context(), "/annex.io/fences/"+f.name); err != nil {
		t.Fatal(err)
	}
	now := metav1.NowMicro()
	f.current.Spec.RenewTime = &now
	f.did(f.leases.Update(t.Context(), f.current, metav1.UpdateOptions{}))
	f.want("first renewal after an upgrade", "0;one", true)
}

// TestFenceKeyGoesWithACorruptLease removes a Lease that cannot be decoded.
func TestFenceKeyGoesWithACorruptLease(t *testing.T) {
	t.Parallel()
	f := startFenced(t, start(t, coordination.GroupVersion, coordination.Kinds()), "corrupt")
	f.did(f.leases.Create(t.Context(), leaseOf("one", 0), metav1.CreateOptions{}))
	if _, err := f.server.Etcd.Put(t.Context(), f.server.Prefix+"/coordination.k8s.io/leases/"+f.name, "nonsense"); err != nil {
		t.Fatal(err)
	}
	if err := f.leases.Delete(t.Context(), "leader", metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)}); err != nil {
		t.Fatal(err)
	}
	f.wantNone("unsafe deletion")
}

// TestFenceKeyOfRivals has many take one Lease at once: the key tells who has it in every revision.
func TestFenceKeyOfRivals(t *testing.T) {
	t.Parallel()
	f := startFenced(t, start(t, coordination.GroupVersion, coordination.Kinds()), "rivals")
	f.did(f.leases.Create(t.Context(), leaseOf("nobody", 0), metav1.CreateOptions{}))
	const rivals, writes = 4, 10
	ended := make(chan error, rivals)
	for rival := range rivals {
		go func() {
			for write := range writes {
				body := fmt.Sprintf(`{"spec":{"holderIdentity":"rival-%d-%d"}}`, rival, write)
				if _, err := f.leases.Patch(t.Context(), "leader", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range rivals {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	f.did(f.leases.Get(t.Context(), "leader", metav1.GetOptions{}))
	f.want("after the race", "0;"+*f.current.Spec.HolderIdentity, true)
}
