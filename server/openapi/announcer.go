// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
)

const (
	// ChangedAnnotation is set anew on an APIService whenever a replica of its server has begun to publish something else.
	ChangedAnnotation = "annex.io/openapi-changed"

	announceRetry   = 2 * time.Second
	announceTimeout = 10 * time.Second
)

// Announcer touches APIServices when what is published about their version changes, so that aggregators look at once. Each
// replica does so by itself: the aggregator may have asked one that had not changed yet. It needs the right to patch the
// APIServices, and leaves alone those that do not exist.
type Announcer struct {
	client apiregistrationclient.APIServicesGetter
	wake   chan struct{}

	mu      sync.Mutex
	pending sets.Set[string]
}

// NewAnnouncer returns an announcer of what the publisher changes from now on. It tells nobody before it runs.
func NewAnnouncer(host *rest.Config, publisher *Publisher) (*Announcer, error) {
	client, err := apiregistrationclient.NewForConfig(host)
	if err != nil {
		return nil, fmt.Errorf("make a client of the host's APIServices: %w", err)
	}
	a := &Announcer{client: client, wake: make(chan struct{}, 1), pending: sets.New[string]()}
	publisher.OnChange(a.changed)
	return a, nil
}

// Run tells about changes until the context ends.
func (a *Announcer) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		for !a.announce(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(announceRetry):
			}
		}
	}
}

func (a *Announcer) changed(versions []schema.GroupVersion) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, version := range versions {
		a.pending.Insert(version.Version + "." + version.Group)
	}
	select {
	case a.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// announce touches what is to be touched. It tells whether all of it was.
func (a *Announcer) announce(ctx context.Context) bool {
	a.mu.Lock()
	names := sets.List(a.pending)
	a.pending = sets.New[string]()
	a.mu.Unlock()
	var errs []error
	for _, name := range names {
		if err := a.touch(ctx, name); err != nil {
			errs = append(errs, err)
			a.mu.Lock()
			a.pending.Insert(name)
			a.mu.Unlock()
		}
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Telling the host that published documents have changed; it finds out by itself within a minute")
	}
	return len(errs) == 0
}

func (a *Announcer) touch(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{ChangedAnnotation: time.Now().UTC().Format(time.RFC3339Nano)},
	}})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	_, err = a.client.APIServices().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotate APIService %s: %w", name, err)
	}
	return nil
}
