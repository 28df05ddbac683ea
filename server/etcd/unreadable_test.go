// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/warning"
)

// broken is no object at all, and unknown is one in a version that nobody knows.
const (
	broken  = "k8s\x00 and then nonsense"
	unknown = `{"apiVersion":"v9","kind":"Secret","metadata":{"namespace":"ns","name":"two"}}`
)

// warnings collects what a client is told.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) AddWarning(_, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// listed returns the names in a list as a client asks for it with a verb, and the warnings.
func listed(t *testing.T, store storage.Interface, key, verb string) ([]string, string, error) {
	t.Helper()
	told := &warnings{}
	ctx := warning.WithWarningRecorder(request.WithRequestInfo(t.Context(), &request.RequestInfo{Verb: verb}), told)
	list := &corev1.SecretList{}
	err := store.GetList(ctx, key, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list)
	names := []string{}
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, strings.Join(told.texts, "\n"), err
}

func wantListed(t *testing.T, store storage.Interface, when string, warned bool, want ...string) {
	t.Helper()
	names, told, err := listed(t, store, "/core/secrets/", "list")
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("%s: listed (-want,+got):\n%s", when, diff)
	}
	if strings.Contains(told, "/test/registry/core/secrets/ns/two") != warned {
		t.Errorf("%s: the warnings are %q, want one of the broken key: %t", when, told, warned)
	}
}

func wantChange(t *testing.T, changes watch.Interface, when string, want watch.EventType, name string) {
	t.Helper()
	select {
	case change := <-changes.ResultChan():
		accessor, err := meta.Accessor(change.Object)
		if err != nil || change.Type != want || accessor.GetName() != name {
			t.Fatalf("%s: the watch tells of %s %v, want %s %s", when, change.Type, change.Object, want, name)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: the watch tells of nothing, want %s %s", when, want, name)
	}
}

func TestUnreadableObjectsAreLeftOut(t *testing.T) {
	t.Parallel()
	const key, etcdKey = "/core/secrets/ns/two", "/test/registry/core/secrets/ns/two"
	b := startEmbedded(t, t.TempDir())
	config := newConfig(t, b)
	first := open(t, config.RESTOptionsGetter, secrets, newSecret, newSecretList)
	for _, name := range []string{"one", "two", "three"} {
		if err := first.Create(t.Context(), "/core/secrets/ns/"+name, secret(name, ""), &corev1.Secret{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	intact := value(t, b, etcdKey)
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

	if err := put(t.Context(), b, etcdKey, broken); err != nil {
		t.Fatal(err)
	}
	wantChange(t, changes, "broken", watch.Deleted, "two")
	second := open(t, config.RESTOptionsGetter, secrets, newSecret, newSecretList)
	waitUntilReady(t, second)
	for when, store := range map[string]storage.Interface{"broken while it ran": first, "broken before it ran": second} {
		wantListed(t, store, when, true, "one", "three")
		if names, told, err := listed(t, store, "/core/secrets/other", "list"); err != nil || len(names) != 0 || told != "" {
			t.Errorf("%s: in another namespace: %v, %q, %v", when, names, told, err)
		}
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
	for when, store := range map[string]storage.Interface{"repaired": first, "repaired, in the other cache": second} {
		wantListed(t, store, when, false, "one", "three", "two")
	}

	if err := put(t.Context(), b, etcdKey, broken); err != nil {
		t.Fatal(err)
	}
	wantChange(t, changes, "broken again", watch.Deleted, "two")
	unsafely := storage.DeleteOptions{ExpectTransformOrDecodeError: true}
	if err := first.Delete(t.Context(), key, &corev1.Secret{}, nil, rest.ValidateAllObjectFunc, nil, unsafely); err != nil {
		t.Fatal(err)
	}
	if err := first.Create(t.Context(), key, secret("two", ""), &corev1.Secret{}, 0); err != nil {
		t.Fatal(err)
	}
	wantChange(t, changes, "deleted unsafely and created", watch.Added, "two")
	for when, store := range map[string]storage.Interface{"created": first, "created, in the other cache": second} {
		wantListed(t, store, when, false, "one", "three", "two")
	}
}

// TestListsOfOneNameConcernOneObject has names of which one begins with another.
func TestListsOfOneNameConcernOneObject(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	store := open(t, newConfig(t, b).RESTOptionsGetter, secrets, newSecret, newSecretList)
	for _, name := range []string{"two", "two-more"} {
		if err := store.Create(t.Context(), "/core/secrets/ns/"+name, secret(name, ""), &corev1.Secret{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(t.Context(), b, "/test/registry/core/secrets/ns/two-more", broken); err != nil {
		t.Fatal(err)
	}
	waitUntilReady(t, store)
	wantListed(t, store, "all", true, "two")
	for name, unreadable := range map[string]bool{"two": false, "two-more": true} {
		for _, verb := range []string{"list", "deletecollection"} {
			told := &warnings{}
			ctx := warning.WithWarningRecorder(request.WithRequestInfo(t.Context(), &request.RequestInfo{Verb: verb}), told)
			list := &corev1.SecretList{}
			err := store.GetList(ctx, "/core/secrets/ns/"+name, storage.ListOptions{Predicate: storage.Everything}, list)
			if refused := apierrors.ReasonForError(err) == metav1.StatusReasonStoreReadError; refused != (unreadable && verb == "deletecollection") || err != nil && !refused {
				t.Errorf("%s of %s: got %v", verb, name, err)
			}
			if warned := len(told.texts) > 0; warned != (unreadable && verb == "list") {
				t.Errorf("%s of %s: the warnings are %q", verb, name, told.texts)
			}
		}
	}
}

// keysReader counts the reads of keys without values.
type keysReader struct {
	clientv3.KV
	reads atomic.Int64
}

func (r *keysReader) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if op := clientv3.OpGet(key, options...); op.IsKeysOnly() {
		r.reads.Add(1)
	}
	return r.KV.Get(ctx, key, options...)
}

// TestUnreadableObjectsAreFoundTogether counts what lists cost beyond the list, which is a scan of the whole resource.
func TestUnreadableObjectsAreFoundTogether(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	reader := &keysReader{KV: b.Client.KV}
	b.Client.KV = reader
	names := []string{"one", "two", "three"}
	for _, name := range names {
		if err := put(t.Context(), b, "/test/registry/core/secrets/ns/"+name, broken); err != nil {
			t.Fatal(err)
		}
	}
	response, err := b.Client.KV.Get(t.Context(), "/test/registry/core/secrets/ns/three")
	if err != nil {
		t.Fatal(err)
	}
	then := strconv.FormatInt(response.Header.Revision, 10)
	// The watch cache is of a later version, so lists of that one are read from etcd.
	if err := put(t.Context(), b, "/later", ""); err != nil {
		t.Fatal(err)
	}
	store := open(t, newConfig(t, b).RESTOptionsGetter, secrets, newSecret, newSecretList)
	waitUntilReady(t, store)
	wantReads := func(when string, want int64) {
		t.Helper()
		before := reader.reads.Load()
		options := storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: then, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		list := &corev1.SecretList{}
		if err := store.GetList(t.Context(), "/core/secrets/", options, list); err != nil || len(list.Items) > 0 {
			t.Fatalf("%s: the list has %v, %v; want nothing that can be decoded", when, list.Items, err)
		}
		if reads := reader.reads.Load() - before; reads != want {
			t.Errorf("%s: %d reads of keys, want %d", when, reads, want)
		}
	}
	wantReads("known", 0)
	for _, name := range names {
		if _, err := b.Client.KV.Delete(t.Context(), "/test/registry/core/secrets/ns/"+name); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() string {
		told := &warnings{}
		options := storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: "0"}
		if err := store.GetList(warning.WithWarningRecorder(t.Context(), told), "/core/secrets/", options, &corev1.SecretList{}); err != nil {
			return err.Error()
		}
		return strings.Join(told.texts, "\n")
	})
	wantReads("gone since", 1)
}

// TestObjectsOutOfReachAreNotLeftOut has lists fail where it is not the object's fault: nobody must believe it gone.
func TestObjectsOutOfReachAreNotLeftOut(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, t.TempDir())
	config := newConfig(t, b)
	custom, err := b.CustomResourceRESTOptions(config, "/test/registry")
	if err != nil {
		t.Fatal(err)
	}
	for at, text := range map[string]string{
		"core/secrets/ns/two":          unknown,
		"core/configmaps/ns/encrypted": "k8s:enc:secretbox:v1:one:hidden",
		"example.com/widgets/ns/other": `{"apiVersion":"other.example.com/v1","kind":"Widget","metadata":{}}`,
		"example.com/widgets/ns/none":  `{"apiVersion":`,
	} {
		if err := put(t.Context(), b, "/test/registry/"+at, text); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		store storage.Interface
		key   string
		list  runtime.Object
	}{
		"a version that is not known": {open(t, config.RESTOptionsGetter, secrets, newSecret, newSecretList), "/core/secrets/", &corev1.SecretList{}},
		"a key that is not known":     {open(t, config.RESTOptionsGetter, configMaps, newConfigMap, newConfigMapList), "/core/configmaps/", &corev1.ConfigMapList{}},
		"a conversion that fails": {
			open(t, failingConversion{custom}, schema.GroupResource{Group: "example.com", Resource: "widgets"}, newWidget, newWidgetList),
			"/example.com/widgets/", newWidgetList(),
		},
	} {
		predicate := storage.Everything
		predicate.Limit = 10 // Such a list does not wait for the watch cache.
		ctx := request.WithRequestInfo(context.Background(), &request.RequestInfo{Verb: "list"})
		if err := tc.store.GetList(ctx, tc.key, storage.ListOptions{Recursive: true, Predicate: predicate}, tc.list); err == nil {
			t.Errorf("%s: the list has %v and no error", name, tc.list)
		}
	}
}

func newWidget() runtime.Object     { return &unstructured.Unstructured{} }
func newWidgetList() runtime.Object { return &unstructured.UnstructuredList{} }

// failingConversion stores custom resources whose conversion webhook is away.
type failingConversion struct{ generic.RESTOptionsGetter }

func (f failingConversion) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := f.RESTOptionsGetter.GetRESTOptions(resource, example)
	config := *options.StorageConfig
	config.Codec = failingCodec{config.Codec}
	options.StorageConfig = &config
	return options, err
}

type failingCodec struct{ runtime.Codec }

func (failingCodec) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return nil, nil, errors.New("the conversion webhook is away")
}
