// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
)

const (
	keyOne = `{"name": "one", "secret": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}`
	keyTwo = `{"name": "two", "secret": "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="}`
)

func writeEncryption(t *testing.T, path, keys string) {
	t.Helper()
	content := fmt.Sprintf(`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [
		{"resources": ["secrets", "clusterclaims.multicluster.k8s.io"], "providers": [{"secretbox": {"keys": [%s]}}]}]}`, keys)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestEncryptionKeysRotate replaces the key that Secrets, and claims of the extension, are stored with.
func TestEncryptionKeysRotate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	writeEncryption(t, path, keyOne)
	server := framework.Start(t, func(o *standalone.Options) { o.Etcd.EncryptionConfig = path })
	const hidden, plainly = "hidden-in-etcd", "plain-in-etcd"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string][]byte{"a": []byte(hidden)}}
	if _, err := server.Kubernetes.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "a.example.com"}, Spec: v1alpha1.ClusterClaimSpec{Value: hidden}}
	if _, err := server.Annex.MulticlusterV1alpha1().ClusterClaims().Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"a": plainly}}
	if _, err := server.Kubernetes.CoreV1().ConfigMaps("default").Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantKey(t, server, "one")

	// The new key goes first, for new writes; what is stored is rewritten; then nothing needs the old one.
	writeEncryption(t, path, keyTwo+","+keyOne)
	server.Restart(t)
	wantKey(t, server, "one")
	migrateSecrets(t, server.Kubernetes)
	claims := server.Annex.MulticlusterV1alpha1().ClusterClaims()
	stored, err := claims.Get(t.Context(), "a.example.com", metav1.GetOptions{})
	if err == nil {
		_, err = claims.Update(t.Context(), stored, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	wantKey(t, server, "two")
	writeEncryption(t, path, keyTwo)
	server.Restart(t)
	if got, err := server.Kubernetes.CoreV1().Secrets("default").Get(t.Context(), "a", metav1.GetOptions{}); err != nil || string(got.Data["a"]) != hidden {
		t.Errorf("without the old key the Secret is %v, %v", got.Data, err)
	}
	if got, err := server.Annex.MulticlusterV1alpha1().ClusterClaims().Get(t.Context(), "a.example.com", metav1.GetOptions{}); err != nil || got.Spec.Value != hidden {
		t.Errorf("without the old key the claim is %v, %v", got.Spec, err)
	}
	server.Stop(t)
	found := map[string]bool{}
	err = filepath.WalkDir(server.DataDir(), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(file)
		found[hidden] = found[hidden] || bytes.Contains(content, []byte(hidden))
		found[plainly] = found[plainly] || bytes.Contains(content, []byte(plainly))
		return err
	})
	if err != nil || found[hidden] || !found[plainly] {
		t.Errorf("in all files of the data directory: %v, %v; want what is not encrypted alone", found, err)
	}
}

// wantKey makes sure that Secrets and claims are stored with a key.
func wantKey(t *testing.T, server *framework.Server, key string) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(server.DataDir(), "etcd", "client.sock")}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for _, name := range []string{"/registry/core/secrets/default/a", "/annex.io/registry/multicluster.k8s.io/clusterclaims/a.example.com"} {
		got, err := client.Get(t.Context(), name)
		if err != nil || len(got.Kvs) != 1 {
			t.Fatalf("reading %s: %v, %v", name, got, err)
		}
		if !strings.HasPrefix(string(got.Kvs[0].Value), "k8s:enc:secretbox:v1:"+key+":") {
			t.Errorf("%s is stored as %.60q, want with the key %s", name, got.Kvs[0].Value, key)
		}
	}
}

// migrateSecrets has all Secrets stored anew.
func migrateSecrets(t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	all := kube.StoragemigrationV1().StorageVersionMigrations()
	migration := &storagemigrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: "secrets"}, Spec: storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Resource: "secrets"}},
	}
	if _, err := all.Create(t.Context(), migration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		migration, err := all.Get(t.Context(), "secrets", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range migration.Status.Conditions {
			if condition.Type == string(storagemigrationv1.MigrationSucceeded) && condition.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the migration: %+v", migration.Status.Conditions)
	})
}
