// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// TestUndecryptableObjectsAreLeftOut damages one of several encrypted values.
func TestUndecryptableObjectsAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"secretbox", "aesgcm", "aescbc"} {
		for mode, reload := range map[string]bool{"fixed": false, "reloaded": true} {
			t.Run(provider+" "+mode, func(t *testing.T) {
				t.Parallel()
				const key, etcdKey = "/core/secrets/ns/two", "/test/registry/core/secrets/ns/two"
				path := filepath.Join(t.TempDir(), "encryption.yaml")
				if err := os.WriteFile(path, []byte(strings.ReplaceAll(encryptionConfig, "secretbox", provider)), 0o600); err != nil {
					t.Fatal(err)
				}
				b := startEmbedded(t, t.TempDir(), func(o *Options) { o.EncryptionConfig, o.EncryptionReload = path, reload })
				config := newConfig(t, b)
				first := open(t, config.RESTOptionsGetter, secrets, newSecret, newSecretList)
				for _, name := range []string{"one", "two", "three"} {
					if err := first.Create(t.Context(), "/core/secrets/ns/"+name, secret(name, "hidden"), &corev1.Secret{}, 0); err != nil {
						t.Fatal(err)
					}
				}
				waitUntilReady(t, first)
				wantListed(t, first, "at first", false, "one", "three", "two")
				list := &corev1.SecretList{}
				if err := first.GetList(t.Context(), "/core/secrets/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil {
					t.Fatal(err)
				}
				changes, err := first.Watch(t.Context(), "/core/secrets/", storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: list.ResourceVersion})
				if err != nil {
					t.Fatal(err)
				}
				defer changes.Stop()

				intact := value(t, b, etcdKey)
				// Without the last byte, neither the length nor a checksum is right.
				if err := put(t.Context(), b, etcdKey, intact[:len(intact)-1]); err != nil {
					t.Fatal(err)
				}
				wantChange(t, changes, "damaged", watch.Deleted, "two")
				second := open(t, config.RESTOptionsGetter, secrets, newSecret, newSecretList)
				waitUntilReady(t, second)
				for when, store := range map[string]storage.Interface{"damaged while it ran": first, "damaged before it ran": second} {
					wantListed(t, store, when, true, "one", "three")
					if _, _, err := listed(t, store, "/core/secrets/ns", "deletecollection"); apierrors.ReasonForError(err) != metav1.StatusReasonStoreReadError {
						t.Errorf("%s: clearing the namespace: got %v, want an error that says what stays", when, err)
					}
					if err := store.Get(t.Context(), key, storage.GetOptions{}, &corev1.Secret{}); !storage.IsCorruptObject(err) {
						t.Errorf("%s: reading it by name: got %v, want that it is corrupt", when, err)
					}
				}
				if err := put(t.Context(), b, etcdKey, intact); err != nil {
					t.Fatal(err)
				}
				wantChange(t, changes, "repaired", watch.Added, "two")
				wantListed(t, first, "repaired", false, "one", "three", "two")

				// The other key may be configured later; until then the object must not seem to be gone.
				if err := put(t.Context(), b, etcdKey, strings.Replace(intact, ":v1:one:", ":v1:other:", 1)); err != nil {
					t.Fatal(err)
				}
				third := open(t, config.RESTOptionsGetter, secrets, newSecret, newSecretList)
				if names, _, err := listed(t, third, "/core/secrets/", "list"); err == nil {
					t.Errorf("with a key that is not configured: listed %v and no error", names)
				}
			})
		}
	}
}
