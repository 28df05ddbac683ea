// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
)

// DefaultPoll is how often discovery is asked.
const DefaultPoll = 2 * time.Second

// APIs asks a server what it serves.
type APIs struct {
	// Config reaches the server.
	Config *rest.Config
	// Poll is how often it is asked; 0 means DefaultPoll.
	Poll time.Duration
}

// APIServed holds while the resource is in the server's discovery. It is asked every two seconds.
func APIServed(config *rest.Config, resource schema.GroupVersionResource) leadership.Condition {
	return APIs{Config: config}.Served(resource)
}

// Served holds while the resource is in the server's discovery. Only the document of its group and version is read. That the server
// behind an APIService does not answer changes nothing: the API is still there, and its controllers have to bear with that.
func (a APIs) Served(resource schema.GroupVersionResource) leadership.Condition {
	return func(ctx context.Context, report func(bool)) error {
		client, err := discovery.NewDiscoveryClientForConfig(a.Config)
		if err != nil {
			return fmt.Errorf("make a client for discovery: %w", err)
		}
		poll := a.Poll
		if poll == 0 {
			poll = DefaultPoll
		}
		ticker := time.NewTicker(poll)
		defer ticker.Stop()
		last := changes{report: report}
		for {
			served, err := isServed(ctx, client, resource)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				klog.FromContext(ctx).V(2).Info("Discovery did not answer; asking again", "resource", resource, "reason", err.Error())
			default:
				last.set(served)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	}
}

func isServed(ctx context.Context, client discovery.DiscoveryInterfaceWithContext, resource schema.GroupVersionResource) (bool, error) {
	list, err := client.ServerResourcesForGroupVersionWithContext(ctx, resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource }), nil
}

// changes reports a value when it is not the one that was reported last.
type changes struct {
	report func(bool)
	known  bool
	value  bool
}

func (c *changes) set(value bool) {
	if c.known && c.value == value {
		return
	}
	c.known, c.value = true, value
	c.report(value)
}
