// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"
)

func TestWatchesFromTheFutureAreRefused(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	store := open(t, newConfig(t, b).RESTOptionsGetter, secrets, newSecret, newSecretList)
	waitUntilReady(t, store)
	var created corev1.Secret
	if err := store.Create(t.Context(), "/core/secrets/ns/one", secret("one", ""), &created, 0); err != nil {
		t.Fatal(err)
	}
	now, err := strconv.Atoi(created.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]bool{"": true, "0": true, strconv.Itoa(now): true, strconv.Itoa(now + 1000): false} {
		changes, err := store.Watch(t.Context(), "/core/secrets/", storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: version})
		if err == nil {
			changes.Stop()
		}
		if want && err != nil || !want && !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch from %q, where etcd is at %d: got %v, want a watch: %t", version, now, err, want)
		}
	}
}
