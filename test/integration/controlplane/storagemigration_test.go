// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/kube-annex/annex/server/etcd"
)

// stored returns what is in the embedded etcd below a path.
func (h *host) stored(t *testing.T, path string) map[string]string {
	t.Helper()
	socket := "unix://" + filepath.Join(h.Dir, "data", "etcd", "client.sock")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{socket}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	response, err := client.Get(t.Context(), path, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, pair := range response.Kvs {
		all[string(pair.Key)] = string(pair.Value)
	}
	return all
}

// inForm counts what is stored in a form, and returns an error if it is not all.
func inForm(all map[string]string, is func(content string) bool) (int, error) {
	number := 0
	for _, content := range all {
		if is(content) {
			number++
		}
	}
	if number < len(all) || number == 0 {
		return number, fmt.Errorf("%d of %d objects are stored in the form that they should have", number, len(all))
	}
	return number, nil
}

func migrate(t *testing.T, h *host, name, group, resource string) {
	t.Helper()
	_, err := core(t, h.Admin()).StoragemigrationV1().StorageVersionMigrations().Create(t.Context(), &storagemigrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: group, Resource: resource}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// waitMigration returns when a migration has come to the given end, and the message about it.
func waitMigration(t *testing.T, h *host, name string, end storagemigrationv1.MigrationConditionType) string {
	t.Helper()
	var message string
	client := core(t, h.Admin()).StoragemigrationV1().StorageVersionMigrations()
	eventually(t, func() error {
		m, err := client.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range []storagemigrationv1.MigrationConditionType{storagemigrationv1.MigrationSucceeded, storagemigrationv1.MigrationFailed} {
			if meta.IsStatusConditionTrue(m.Status.Conditions, string(condition)) != (condition == end) {
				return fmt.Errorf("the conditions of %s are %+v", name, m.Status.Conditions)
			}
		}
		if meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1.MigrationRunning)) {
			return fmt.Errorf("%s has ended and is still running", name)
		}
		if end == storagemigrationv1.MigrationSucceeded && m.Status.ResourceVersion == "" {
			return fmt.Errorf("%s does not say at which resource version it began", name)
		}
		message = meta.FindStatusCondition(m.Status.Conditions, string(end)).Message
		return nil
	})
	return message
}

// TestStorageVersionMigration has the objects of a definition stored in another version, while somebody goes on changing some of them.
func TestStorageVersionMigration(t *testing.T) {
	t.Parallel()
	const number = 40
	h := startHost(t, nil)
	createWidgetDefinition(t, h.Admin())
	objects := anything(t, h.Admin()).Resource(widgets).Namespace("default")
	for i := range number {
		widget := object(widgets, "Widget")
		widget.SetGenerateName("")
		widget.SetName(fmt.Sprintf("w%d", i))
		eventually(t, func() error {
			_, err := objects.Create(t.Context(), widget, metav1.CreateOptions{})
			return err
		})
	}
	crds := definitions(t, h.Admin()).ApiextensionsV1().CustomResourceDefinitions()
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		definition, err := crds.Get(t.Context(), "widgets.example.com", metav1.GetOptions{})
		if err != nil {
			return err
		}
		second := *definition.Spec.Versions[0].DeepCopy()
		second.Name = "v2"
		definition.Spec.Versions[0].Storage = false
		definition.Spec.Versions = append(definition.Spec.Versions, second)
		_, err = crds.Update(t.Context(), definition, metav1.UpdateOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	var changing sync.WaitGroup
	last := make([]int64, 4)
	for i := range last {
		changing.Go(func() {
			for size := int64(1); ctx.Err() == nil; size++ {
				patch := fmt.Appendf(nil, `{"spec":{"size":%d}}`, size)
				if _, err := objects.Patch(t.Context(), fmt.Sprintf("w%d", i), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					t.Errorf("changing an object meanwhile: %v", err)
				}
				last[i] = size
			}
		})
	}
	migrate(t, h, "first", "example.com", "widgets")
	migrate(t, h, "second", "example.com", "widgets")
	if message := waitMigration(t, h, "first", storagemigrationv1.MigrationSucceeded); !strings.Contains(message, fmt.Sprint(number)) {
		t.Errorf("it says %q, which should have the number of objects, %d", message, number)
	}
	stop()
	changing.Wait()
	waitMigration(t, h, "second", storagemigrationv1.MigrationSucceeded)

	if _, err := inForm(h.stored(t, "/registry/example.com/widgets/"), func(content string) bool {
		return strings.Contains(content, `"apiVersion":"example.com/v2"`)
	}); err != nil {
		t.Error(err)
	}
	for i, want := range last {
		object, err := objects.Get(t.Context(), fmt.Sprintf("w%d", i), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedInt64(object.Object, "spec", "size"); got != want {
			t.Errorf("the size of %s is %d, want the %d that was written last", object.GetName(), got, want)
		}
	}
	definition, err := crds.Get(t.Context(), "widgets.example.com", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"v2"}, definition.Status.StoredVersions); diff != "" {
		t.Errorf("stored versions (-want,+got):\n%s", diff)
	}
	if condition := apihelpers.FindCRDCondition(definition, apiextensionsv1.StorageMigrating); condition == nil || condition.Status != apiextensionsv1.ConditionFalse {
		t.Errorf("the definition says about its migration: %+v", condition)
	}
}

// TestMigrationIntoEncryption switches encryption on and has what is stored encrypted, in spite of a stop in the middle.
func TestMigrationIntoEncryption(t *testing.T) {
	t.Parallel()
	const number = 200
	h := startHost(t, nil)
	h.emptying().fresh(t, "plain")
	secrets := core(t, h.Admin()).CoreV1().Secrets("plain")
	var creating sync.WaitGroup
	for writer := range 10 {
		creating.Go(func() {
			for i := range number / 10 {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d-%d", writer, i)}, Data: map[string][]byte{"password": []byte("hidden")}}
				if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	creating.Wait()
	h.Stop()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(path, []byte(`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [{"resources": ["secrets"], "providers": [
		{"secretbox": {"keys": [{"name": "one", "secret": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}]}}, {"identity": {}}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h.AdjustEtcd = func(o *etcd.Options) { o.EncryptionConfig = path }
	h.Start()
	encrypted := func() (int, error) {
		return inForm(h.stored(t, "/registry/core/secrets/plain/"), func(content string) bool {
			return strings.HasPrefix(content, "k8s:enc:secretbox:v1:one:")
		})
	}
	if got, _ := encrypted(); got != 0 {
		t.Fatalf("%d secrets are encrypted already", got)
	}
	migrate(t, h, "encrypt", "", "secrets")
	eventually(t, func() error {
		if got, err := encrypted(); got == 0 {
			return err
		}
		return nil
	})
	h.Stop()
	h.Start()
	waitMigration(t, h, "encrypt", storagemigrationv1.MigrationSucceeded)
	if got, err := encrypted(); err != nil || got != number {
		t.Errorf("after the migration: %d are encrypted, %v", got, err)
	}
}

func TestMigrationsThatFail(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	for name, tc := range map[string]struct {
		resource schema.GroupResource
		want     string
	}{
		"nobody-has-it":  {schema.GroupResource{Group: "example.com", Resource: "nothings"}, "this server has no resource nothings.example.com"},
		"nothing-stored": {schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}, "tokenreviews.authentication.k8s.io cannot be listed and written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			migrate(t, h, name, tc.resource.Group, tc.resource.Resource)
			if got := waitMigration(t, h, name, storagemigrationv1.MigrationFailed); !strings.Contains(got, tc.want) {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}
