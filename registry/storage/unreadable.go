// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"
)

// toldAtOnce is how many unreadable objects a client is told of by name.
const toldAtOnce = 3

// unreadable are those objects of a resource that are in etcd and cannot be decoded. Lists and watches leave them out.
type unreadable struct {
	resource schema.GroupResource
	mu       sync.Mutex
	// reasons are by key in etcd.
	reasons map[string]error
}

// forget is called before everything is read anew.
func (u *unreadable) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reasons = nil
}

func (u *unreadable) note(ctx context.Context, key string, reason error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.reasons[key]; !known {
		klog.FromContext(ctx).Error(reason, "Cannot decode a stored object; lists leave it out", "resource", u.resource, "key", key)
	}
	if u.reasons == nil {
		u.reasons = map[string]error{}
	}
	u.reasons[key] = reason
}

func (u *unreadable) gone(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.reasons, key)
}

// any tells whether there are any.
func (u *unreadable) any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.reasons) > 0
}

// below returns the keys with a prefix, in order, and why they are unreadable.
func (u *unreadable) below(prefix string) ([]string, []error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(u.reasons)), func(key string) bool { return !strings.HasPrefix(key, prefix) })
	reasons := make([]error, 0, len(keys))
	for _, key := range keys {
		reasons = append(reasons, u.reasons[key])
	}
	return keys, reasons
}

// telling tells clients what their lists leave out, and refuses to clear what cannot be cleared completely.
type telling struct {
	storage.Interface
	unreadable *unreadable
	// etcdKey returns the key in etcd for one of the registry.
	etcdKey func(key string) string
}

func (t telling) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	if err := t.Interface.GetList(ctx, key, options, list); err != nil {
		return err
	}
	return t.tell(ctx, key, options)
}

func (t telling) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		if err := t.tell(ctx, key, options); err != nil {
			return nil, err
		}
	}
	return t.Interface.Watch(ctx, key, options)
}

func (t telling) tell(ctx context.Context, key string, options storage.ListOptions) error {
	if !t.unreadable.any() {
		return nil
	}
	prefix := t.etcdKey(key)
	if options.Recursive {
		prefix += "/"
	}
	keys, reasons := t.unreadable.below(prefix)
	if len(keys) == 0 {
		return nil
	}
	// Who clears a namespace has to know that something stays; whoever only reads is better served with the rest.
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Verb == "deletecollection" {
		return t.unreadable.refuse(keys, reasons)
	}
	warning.AddWarning(ctx, "", t.unreadable.describe(keys))
	return nil
}

func (u *unreadable) describe(keys []string) string {
	named := strings.Join(keys[:min(len(keys), toldAtOnce)], ", ")
	if len(keys) > toldAtOnce {
		named += fmt.Sprintf(" and %d more", len(keys)-toldAtOnce)
	}
	return fmt.Sprintf("%s in storage that cannot be decoded and are left out: %s; repair them in etcd, or delete them with "+
		"ignoreStoreReadErrorWithClusterBreakingPotential", u.resource, named)
}

// refuse returns the error with which kube-apiserver answers such a list.
func (u *unreadable) refuse(keys []string, reasons []error) error {
	var causes []metav1.StatusCause
	for i, key := range keys {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Field: key, Message: reasons[i].Error()})
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError,
		Message: u.describe(keys),
		Details: &metav1.StatusDetails{Group: u.resource.Group, Kind: u.resource.Resource, Causes: causes},
	}}
}
