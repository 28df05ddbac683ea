// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
)

// tolerantStore leaves objects that cannot be decoded out of lists and watches, so that they do not hide all others of their resource. For
// watchers, an object that becomes unreadable is deleted. Reading it by name fails as before, and it can be deleted unsafely.
type tolerantStore struct {
	storage.Interface
	unreadable *unreadable
	kv         clientv3.KV
	// prefix is where the resource's keys begin in etcd.
	prefix  string
	newFunc func() runtime.Object
	keyFunc func(obj runtime.Object) (string, error)
	etcdKey func(key string) string
}

func (t tolerantStore) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	if _, asked := request.RequestInfoFrom(ctx); !asked && options.Predicate.Continue == "" && options.ResourceVersionMatch == "" {
		// The watch cache reads everything from the beginning.
		t.unreadable.forget()
	}
	found := findings{}
	if err := t.Interface.GetList(context.WithValue(ctx, findingsKey{}, found), key, options, list); err != nil || len(found) == 0 {
		return err
	}
	dropMarked(list)
	for range found {
		metrics.RecordDecodeError(t.unreadable.resource)
	}
	revisions := t.unreadable.unnoted(found)
	if len(revisions) == 0 {
		return nil
	}
	keys, err := t.keysWrittenAt(ctx, slices.Min(revisions), slices.Max(revisions))
	if err != nil {
		return err
	}
	for _, revision := range revisions {
		if at, ok := keys[revision]; ok {
			t.unreadable.note(ctx, at, revision, found[revision])
		}
	}
	return nil
}

// keysWrittenAt returns those of the resource's keys that were last written at the revisions from one to another. A key that has been
// written again is not among them; the watch is about to tell of it.
func (t tolerantStore) keysWrittenAt(ctx context.Context, from, to int64) (map[int64]string, error) {
	response, err := t.kv.Get(ctx, t.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithMinModRev(from), clientv3.WithMaxModRev(to))
	if err != nil {
		return nil, err
	}
	keys := make(map[int64]string, len(response.Kvs))
	for _, kv := range response.Kvs {
		keys[kv.ModRevision] = string(kv.Key)
	}
	return keys, nil
}

func (t tolerantStore) keyWrittenAt(ctx context.Context, revision int64) (string, error) {
	keys, err := t.keysWrittenAt(ctx, revision, revision)
	return keys[revision], err
}

func (t tolerantStore) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		t.unreadable.forget()
	}
	changes, err := t.Interface.Watch(context.WithValue(ctx, findingsKey{}, findings(nil)), key, options)
	if err != nil {
		return nil, err
	}
	return alter(changes, func(change watch.Event) watch.Event { return t.pass(ctx, change) }), nil
}

// pass returns what a change is to who watches.
func (t tolerantStore) pass(ctx context.Context, change watch.Event) watch.Event {
	object := change.Object
	if timed, ok := object.(storage.WatchEventWithRecordTime); ok {
		object = timed.Unwrap()
	}
	if broken, ok := object.(*undecoded); ok {
		return t.withdraw(ctx, change.Type, broken)
	}
	if t.unreadable.any() && change.Type != watch.Error && change.Type != watch.Bookmark {
		if readable, err := t.keyFunc(object); err == nil {
			t.unreadable.gone(t.etcdKey(readable))
		}
	}
	return change
}

// withdraw makes the deletion of an object of what says that it can no longer be decoded. After an error the watch cache reads everything
// again.
func (t tolerantStore) withdraw(ctx context.Context, what watch.EventType, broken *undecoded) watch.Event {
	key, err := t.keyOf(ctx, what, broken)
	if err != nil {
		return watchError(err)
	}
	object := t.newFunc()
	accessor, err := meta.Accessor(object)
	if err != nil {
		return watchError(err)
	}
	namespace, name := path.Split(strings.TrimPrefix(key, t.prefix))
	accessor.SetNamespace(strings.TrimSuffix(namespace, "/"))
	accessor.SetName(name)
	accessor.SetResourceVersion(broken.ResourceVersion)
	return watch.Event{Type: watch.Deleted, Object: object}
}

// keyOf finds where an object is, or was, of which a watch knows no more than when it was written or deleted.
func (t tolerantStore) keyOf(ctx context.Context, what watch.EventType, broken *undecoded) (string, error) {
	revision, err := strconv.ParseInt(broken.ResourceVersion, 10, 64)
	if err != nil {
		return "", err
	}
	find := t.keyWrittenAt
	if what == watch.Deleted {
		find = t.keyDeletedAt
	}
	key, err := find(ctx, revision)
	if err != nil {
		return "", err
	}
	if key == "" {
		return "", fmt.Errorf("an object of %s that cannot be decoded is no longer where it was at revision %d: %w", t.unreadable.resource, revision, broken.reason)
	}
	if what != watch.Deleted {
		metrics.RecordDecodeError(t.unreadable.resource)
		t.unreadable.note(ctx, key, revision, broken.reason)
	}
	return key, nil
}

// keyDeletedAt returns which of the unreadable keys a revision deleted.
func (t tolerantStore) keyDeletedAt(ctx context.Context, revision int64) (string, error) {
	keys, _ := t.unreadable.matching(func(string) bool { return true })
	for _, key := range keys {
		response, err := t.kv.Get(ctx, key, clientv3.WithRev(revision), clientv3.WithCountOnly())
		if err != nil {
			return "", err
		}
		if response.Count == 0 {
			t.unreadable.gone(key)
			return key, nil
		}
	}
	return "", nil
}

func watchError(err error) watch.Event {
	status := apierrors.NewInternalError(err).Status()
	return watch.Event{Type: watch.Error, Object: &status}
}

// dropMarked takes out of a list what stands for objects that could not be decoded.
func dropMarked(list runtime.Object) {
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return
	}
	all := reflect.ValueOf(items).Elem()
	kept := reflect.MakeSlice(all.Type(), 0, all.Len())
	for i := range all.Len() {
		if accessor, err := meta.Accessor(all.Index(i).Addr().Interface()); err != nil || accessor.GetUID() != marker {
			kept = reflect.Append(kept, all.Index(i))
		}
	}
	all.Set(kept)
}

// undecoded stands in a watch for an object that could not be decoded.
type undecoded struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	reason error
}

// DeepCopyObject implements runtime.Object.
func (u *undecoded) DeepCopyObject() runtime.Object {
	return &undecoded{TypeMeta: u.TypeMeta, ObjectMeta: *u.DeepCopy(), reason: u.reason}
}
