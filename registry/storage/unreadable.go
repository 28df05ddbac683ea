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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

// toldAtOnce is how many unreadable objects a client is told of by name.
const toldAtOnce = 3

// unreadable are those objects of a resource that are in etcd and cannot be decoded. Lists and watches leave them out.
type unreadable struct {
	resource schema.GroupResource
	mu       sync.Mutex
	// objects are by key in etcd.
	objects map[string]unreadableObject
}

type unreadableObject struct {
	reason error
	// revision is that of the write of what cannot be decoded.
	revision int64
}

// forget is called before everything is read anew.
func (u *unreadable) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.objects = nil
}

func (u *unreadable) note(ctx context.Context, key string, revision int64, reason error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.objects[key]; !known {
		klog.FromContext(ctx).Error(reason, "Cannot decode a stored object; lists leave it out", "resource", u.resource, "key", key)
	}
	if u.objects == nil {
		u.objects = map[string]unreadableObject{}
	}
	u.objects[key] = unreadableObject{reason, revision}
}

// unnoted returns the revisions of those findings that are not known yet.
func (u *unreadable) unnoted(found findings) []int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	noted := map[int64]struct{}{}
	for _, object := range u.objects {
		noted[object.revision] = struct{}{}
	}
	return slices.DeleteFunc(slices.Collect(maps.Keys(found)), func(revision int64) bool {
		_, ok := noted[revision]
		return ok
	})
}

func (u *unreadable) gone(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.objects, key)
}

// any tells whether there are any.
func (u *unreadable) any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.objects) > 0
}

// matching returns the keys that match, in order, and why they are unreadable.
func (u *unreadable) matching(match func(key string) bool) ([]string, []error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(u.objects)), func(key string) bool { return !match(key) })
	reasons := make([]error, 0, len(keys))
	for _, key := range keys {
		reasons = append(reasons, u.objects[key].reason)
	}
	return keys, reasons
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
