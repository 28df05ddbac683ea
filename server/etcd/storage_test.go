// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/storage"
	basecompatibility "k8s.io/component-base/compatibility"
)

var (
	secrets    = schema.GroupResource{Resource: "secrets"}
	configMaps = schema.GroupResource{Resource: "configmaps"}
)

// newConfig is a server that keeps core kinds, each registered as its own hub type.
func newConfig(t *testing.T, b *Backend) *genericapiserver.Config {
	t.Helper()
	config, err := tryConfig(b)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func tryConfig(b *Backend) (*genericapiserver.Config, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	for _, version := range []schema.GroupVersion{corev1.SchemeGroupVersion, {Version: runtime.APIVersionInternal}} {
		scheme.AddKnownTypes(version, &corev1.Secret{}, &corev1.SecretList{}, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
	}
	if err := scheme.SetVersionPriority(corev1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(scheme)
	config := genericapiserver.NewConfig(codecs)
	err := b.ApplyTo(config, Storage{
		Prefix: "/test/registry", Scheme: scheme, Codecs: codecs,
		EffectiveVersion: basecompatibility.NewEffectiveVersionFromString("1.37", "", ""),
	})
	return config, err
}

// open returns the storage of one resource.
func open(t *testing.T, getter generic.RESTOptionsGetter, resource schema.GroupResource, one, list func() runtime.Object) storage.Interface {
	t.Helper()
	options, err := getter.GetRESTOptions(resource, one())
	if err != nil {
		t.Fatal(err)
	}
	prefix := "/" + options.ResourcePrefix
	key := func(object runtime.Object) (string, error) {
		o := object.(metav1.Object)
		return prefix + "/" + o.GetNamespace() + "/" + o.GetName(), nil
	}
	store, destroy, err := options.Decorator(options.StorageConfig, prefix, key, one, list, storage.DefaultNamespaceScopedAttr, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	return store
}

func newSecret() runtime.Object        { return &corev1.Secret{} }
func newSecretList() runtime.Object    { return &corev1.SecretList{} }
func newConfigMap() runtime.Object     { return &corev1.ConfigMap{} }
func newConfigMapList() runtime.Object { return &corev1.ConfigMapList{} }

func secret(name, password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{"password": []byte(password)}}
}

// waitUntilReady waits for the watch cache.
func waitUntilReady(t *testing.T, store storage.Interface) {
	t.Helper()
	eventually(t, func() string {
		if err := store.ReadinessCheck(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// keys returns all keys in etcd below the prefix.
func keys(t *testing.T, b *Backend, prefix string) []string {
	t.Helper()
	response, err := b.Client.KV.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, kv := range response.Kvs {
		found = append(found, string(kv.Key))
	}
	return found
}

func TestObjectsAreProtobufUnderGroupAndResource(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	config := newConfig(t, b)
	store := open(t, config.RESTOptionsGetter, secrets, newSecret, newSecretList)
	if err := store.Create(t.Context(), "/core/secrets/ns/one", secret("one", "open"), &corev1.Secret{}, 0); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/test/registry/core/secrets/ns/one"}, keys(t, b, "/test/registry")); diff != "" {
		t.Errorf("keys (-want,+got):\n%s", diff)
	}
	if raw := value(t, b, "/test/registry/core/secrets/ns/one"); !strings.HasPrefix(raw, "k8s\x00") || !strings.Contains(raw, "open") {
		t.Errorf("the stored bytes are not protobuf: %q", raw)
	}
	waitUntilReady(t, store)
	// A consistent list needs progress notifications from etcd.
	list := &corev1.SecretList{}
	if err := store.GetList(t.Context(), "/core/secrets/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Name != "one" {
		t.Errorf("the list has %v, want one", list.Items)
	}
}

func TestPrefixesHaveTheGroup(t *testing.T) {
	t.Parallel()
	for resource, want := range map[schema.GroupResource]string{
		{Resource: "secrets"}:                                     "core/secrets",
		{Group: "features.k8s.io", Resource: "features"}:          "features.k8s.io/features",
		{Group: "coordination.k8s.io", Resource: "leases"}:        "coordination.k8s.io/leases",
		{Group: "apiregistration.k8s.io", Resource: "apiservers"}: "apiregistration.k8s.io/apiservers",
	} {
		if got := (groupPrefixes{}).ResourcePrefix(resource); got != want {
			t.Errorf("%s is stored under %s, want %s", resource, got, want)
		}
	}
}

func TestCustomResourcesAreJSON(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	config := newConfig(t, b)
	getter, err := b.CustomResourceRESTOptions(config, "/test/registry")
	if err != nil {
		t.Fatal(err)
	}
	one := func() runtime.Object { return &unstructured.Unstructured{} }
	list := func() runtime.Object { return &unstructured.UnstructuredList{} }
	store := open(t, getter, schema.GroupResource{Group: "example.com", Resource: "widgets"}, one, list)
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "ns", "name": "one"},
	}}
	if err := store.Create(t.Context(), "/example.com/widgets/ns/one", widget, one(), 0); err != nil {
		t.Fatal(err)
	}
	if raw := value(t, b, "/test/registry/example.com/widgets/ns/one"); !strings.HasPrefix(raw, `{"apiVersion":"example.com/v1"`) {
		t.Errorf("the stored bytes are not JSON: %q", raw)
	}
}

func TestTooLargeObjectIsA413FromTheStore(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	store := open(t, newConfig(t, b).RESTOptionsGetter, secrets, newSecret, newSecretList)
	large := secret("large", strings.Repeat("x", 3<<20))
	if err := store.Create(t.Context(), "/core/secrets/ns/large", large, &corev1.Secret{}, 0); err != nil {
		t.Errorf("an object as large as an HTTP body may be: %v", err)
	}
	huge := secret("huge", strings.Repeat("x", embeddedMaxBytes))
	err := store.Create(t.Context(), "/core/secrets/ns/huge", huge, &corev1.Secret{}, 0)
	if !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("got %v, want a status with code 413", err)
	}
	wantError(t, err, "etcd takes at most 8388608; make it smaller")
}

const encryptionConfig = `
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox:
      keys:
      - name: one
        secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=
  - identity: {}
`

func TestEncryptionAtRest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(path, []byte(encryptionConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, reload := range map[string]bool{"fixed": false, "reloaded": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startEmbedded(t, t.TempDir(), func(o *Options) { o.EncryptionConfig, o.EncryptionReload = path, reload })
			config := newConfig(t, b)
			store := open(t, config.RESTOptionsGetter, secrets, newSecret, newSecretList)
			if err := store.Create(t.Context(), "/core/secrets/ns/one", secret("one", "hidden"), &corev1.Secret{}, 0); err != nil {
				t.Fatal(err)
			}
			raw := value(t, b, "/test/registry/core/secrets/ns/one")
			if !strings.HasPrefix(raw, "k8s:enc:secretbox:v1:one:") || strings.Contains(raw, "hidden") {
				t.Errorf("the stored bytes are not encrypted: %q", raw)
			}
			got := &corev1.Secret{}
			if err := store.Get(t.Context(), "/core/secrets/ns/one", storage.GetOptions{}, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Data["password"], []byte("hidden")) {
				t.Errorf("read %q, want what was written", got.Data)
			}
			plain := open(t, config.RESTOptionsGetter, configMaps, newConfigMap, newConfigMapList)
			configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}}
			if err := plain.Create(t.Context(), "/core/configmaps/ns/one", configMap, &corev1.ConfigMap{}, 0); err != nil {
				t.Fatal(err)
			}
			if raw := value(t, b, "/test/registry/core/configmaps/ns/one"); !strings.HasPrefix(raw, "k8s\x00") {
				t.Errorf("the configuration does not name config maps, and they are not plain: %q", raw)
			}
			wantChecks := []string{"etcd"}
			if reload {
				wantChecks = []string{"kms-providers", "etcd"}
			}
			if diff := cmp.Diff(wantChecks, added(config.ReadyzChecks)); diff != "" {
				t.Errorf("checks of readyz (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestBadEncryptionConfigNamesTheFlag(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(path, []byte("kind: Sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := startEmbedded(t, t.TempDir(), func(o *Options) { o.EncryptionConfig = path })
	_, err := tryConfig(b)
	wantError(t, err, "--encryption-provider-config "+path)
}

func added(checks []healthz.HealthChecker) []string {
	names := []string{}
	for _, check := range checks {
		if name := check.Name(); name != "ping" && name != "log" {
			names = append(names, name)
		}
	}
	return names
}

func TestOnlyHealthzFailsForAFullStore(t *testing.T) {
	t.Parallel()
	config := newConfig(t, startEmbedded(t, t.TempDir()))
	for name, tc := range map[string]struct {
		checks []healthz.HealthChecker
		want   []string
	}{
		"livez":   {config.LivezChecks, []string{"etcd"}},
		"readyz":  {config.ReadyzChecks, []string{"etcd"}},
		"healthz": {config.HealthzChecks, []string{"etcd", "etcd-space"}},
	} {
		if diff := cmp.Diff(tc.want, added(tc.checks)); diff != "" {
			t.Errorf("checks of %s (-want,+got):\n%s", name, diff)
		}
	}
}

// watchRecorder notes the metadata by which the etcd client tells watch streams apart.
type watchRecorder struct {
	clientv3.Watcher
	mu                sync.Mutex
	watched, progress []string
}

func (w *watchRecorder) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasPrefix(key, "/test/registry") {
		w.watched = append(w.watched, stream(ctx))
	}
	return w.Watcher.Watch(ctx, key, opts...)
}

func (w *watchRecorder) RequestProgress(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = append(w.progress, stream(ctx))
	return w.Watcher.RequestProgress(ctx)
}

func stream(ctx context.Context) string {
	outgoing, _ := metadata.FromOutgoingContext(ctx)
	return fmt.Sprint(outgoing)
}

func TestResourcesHaveOwnWatchStreams(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	recorder := &watchRecorder{Watcher: b.Client.Watcher}
	b.Client.Watcher = recorder
	config := newConfig(t, b)
	stores := []storage.Interface{
		open(t, config.RESTOptionsGetter, secrets, newSecret, newSecretList),
		open(t, config.RESTOptionsGetter, configMaps, newConfigMap, newConfigMapList),
	}
	eventually(t, func() string {
		recorder.mu.Lock()
		defer recorder.mu.Unlock()
		if len(recorder.watched) < 2 {
			return fmt.Sprintf("the caches watch %v", recorder.watched)
		}
		return ""
	})
	if err := stores[0].Create(t.Context(), "/core/secrets/ns/one", secret("one", ""), &corev1.Secret{}, 0); err != nil {
		t.Fatal(err)
	}
	waitUntilReady(t, stores[1])
	// The list of config maps waits until their cache has seen the revision of the secret, which takes a notification.
	err := stores[1].GetList(t.Context(), "/core/configmaps/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &corev1.ConfigMapList{})
	if err != nil {
		t.Fatal(err)
	}
	recorder.mu.Lock()
	defer recorder.mu.Unlock()
	slices.Sort(recorder.watched)
	if recorder.watched[0] == recorder.watched[1] || !strings.Contains(recorder.watched[0], "configmaps") || !strings.Contains(recorder.watched[1], "secrets") {
		t.Errorf("the caches share a stream: %v", recorder.watched)
	}
	for _, asked := range recorder.progress {
		if !slices.Contains(recorder.watched, asked) {
			t.Errorf("a notification was asked for on %s, where no cache watches (%v)", asked, recorder.watched)
		}
	}
	if len(recorder.progress) == 0 {
		t.Error("no notification was asked for, so the test tests only half")
	}
}
