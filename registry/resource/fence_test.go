// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
)

var errOver = errors.New("over")

func TestFencedWrites(t *testing.T) {
	t.Parallel()
	etcd := testserver.RunEtcd(t, nil)
	client := GuardClient(etcd.Kubernetes, etcd.KV)
	cases := map[string]struct {
		// fence is what the fence key holds; empty means that it is absent. The write asks for "mine".
		fence string
		// stale has the write expect another revision of its own key; pinned has it rely on a key that changed.
		stale, pinned bool
		wantOver      bool
		wantBroken    bool
		wantSucceeded bool
	}{
		"holds":                               {fence: "mine", wantSucceeded: true},
		"passed on":                           {fence: "other", wantOver: true},
		"gone":                                {wantOver: true},
		"begins alike":                        {fence: "mine2", wantOver: true},
		"holds, own moved on":                 {fence: "mine", stale: true},
		"passed on, own moved on":             {fence: "other", stale: true, wantOver: true},
		"holds, pin broken":                   {fence: "mine", pinned: true, wantBroken: true},
		"passed on, pin broken":               {fence: "other", pinned: true, wantOver: true},
		"passed on, own moved on, pin broken": {fence: "other", stale: true, pinned: true, wantOver: true},
	}
	for verb, deletes := range map[string]bool{"put": false, "delete": true} {
		for name, tc := range cases {
			t.Run(verb+": "+name, func(t *testing.T) {
				t.Parallel()
				own, fence := "/own/"+t.Name(), "/fence/"+t.Name()
				expected := put(t, etcd, own, "old")
				if tc.fence != "" {
					put(t, etcd, fence, tc.fence)
				}
				if tc.stale {
					expected--
				}
				refusals := 0
				ctx := WithFence(withGuard(t.Context()), Fence{Key: fence, Value: "mine", Refused: func(current *string) error {
					refusals++
					if (current == nil) != (tc.fence == "") || current != nil && *current != tc.fence {
						t.Errorf("the fence is told of %v, want %q", current, tc.fence)
					}
					return errOver
				}})
				if tc.pinned {
					guardFrom(ctx).add(own, pin{key: own + "/other", revision: 1})
				}
				succeeded, err := write(ctx, client, own, expected, deletes)
				// The very error, since the endpoints look at its type and do not unwrap it.
				if over := err == errOver; over != tc.wantOver || over != (refusals == 1) { //nolint:errorlint // see above
					t.Errorf("got error %v after %d refusals, want over %t", err, refusals, tc.wantOver)
				}
				if broken := (*pinBrokenError)(nil); errors.As(err, &broken) != tc.wantBroken {
					t.Errorf("got error %v, want a broken pin %t", err, tc.wantBroken)
				}
				if succeeded != tc.wantSucceeded {
					t.Errorf("succeeded: got %t, want %t", succeeded, tc.wantSucceeded)
				}
				if value, _ := get(t, etcd, own); (value == "old") == tc.wantSucceeded {
					t.Errorf("afterwards the key holds %q, succeeded %t", value, tc.wantSucceeded)
				}
			})
		}
	}
}

func TestCompanionsFollowTheirKey(t *testing.T) {
	t.Parallel()
	etcd := testserver.RunEtcd(t, nil)
	client := GuardClient(etcd.Kubernetes, etcd.KV)
	const own, key = "/own", "/companion"
	attempt := func(expected int64, deletes bool, value *string) bool {
		t.Helper()
		ctx := withGuard(t.Context())
		guardFrom(ctx).begin(own, &companionWrite{key: key, value: value})
		succeeded, err := write(ctx, client, own, expected, deletes)
		if err != nil {
			t.Fatal(err)
		}
		return succeeded
	}
	want := func(what, value string, together bool) int64 {
		t.Helper()
		got, revision := get(t, etcd, key)
		_, ownRevision := get(t, etcd, own)
		if got != value || (revision == ownRevision) != together {
			t.Fatalf("%s: the companion holds %q since %d and its key is of %d; want %q, together %t", what, got, revision, ownRevision, value, together)
		}
		return ownRevision
	}
	one, two := "one", "two"
	if !attempt(0, false, &one) {
		t.Fatal("not created")
	}
	revision := want("created", one, true)
	attempt(revision, false, &one)
	revision = want("written with the same value", one, false)
	attempt(revision, false, &two)
	first := want("written with another value", two, true)
	if attempt(revision, false, &one) {
		t.Fatal("a write of an old revision succeeded")
	}
	want("refused write", two, true)
	attempt(first, false, nil)
	revision = want("written without a value", two, false)
	if _, err := etcd.Client.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	attempt(revision, false, &two)
	revision = want("written while the companion was missing", two, true)
	if attempt(revision-1, true, nil) {
		t.Fatal("a deletion of an old revision succeeded")
	}
	want("refused deletion", two, true)
	attempt(revision, true, nil)
	if value, revision := get(t, etcd, key); revision != 0 {
		t.Errorf("the companion of a deleted key holds %q", value)
	}
}

func write(ctx context.Context, client kubernetes.Interface, key string, expected int64, deletes bool) (bool, error) {
	if deletes {
		response, err := client.OptimisticDelete(ctx, key, expected, kubernetes.DeleteOptions{GetOnFailure: true})
		return response.Succeeded, err
	}
	response, err := client.OptimisticPut(ctx, key, []byte("new"), expected, kubernetes.PutOptions{GetOnFailure: true})
	return response.Succeeded, err
}

func put(t *testing.T, etcd *kubernetes.Client, key, value string) int64 {
	t.Helper()
	response, err := etcd.Client.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Revision
}

// get returns what the key holds and since which revision; 0 means that it is absent.
func get(t *testing.T, etcd *kubernetes.Client, key string) (string, int64) {
	t.Helper()
	response, err := etcd.Client.Get(t.Context(), key, clientv3.WithLimit(1))
	if err != nil {
		t.Fatal(err)
	}
	if len(response.Kvs) == 0 {
		return "", 0
	}
	return string(response.Kvs[0].Value), response.Kvs[0].ModRevision
}
