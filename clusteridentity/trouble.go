// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusteridentity

import (
	"context"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	multiclusterclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/multicluster/v1alpha1"
)

// troubles are the kinds of requests that do not work, each with its last error. They are logged when the first begins, when one of
// another sort begins, and when the last ends.
type troubles struct {
	mu   sync.Mutex
	open map[string]error
	said string
}

// first returns one of the errors, the same one as long as it lasts.
func (t *troubles) first() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, request := range slices.Sorted(maps.Keys(t.open)) {
		return t.open[request]
	}
	return nil
}

func (t *troubles) note(logger klog.Logger, request string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.open, request)
		if len(t.open) == 0 && t.said != "" {
			t.said = ""
			logger.Info("The ClusterClaims can be read again")
		}
		return
	}
	if t.open == nil {
		t.open = map[string]error{}
	}
	t.open[request] = err
	// The text of an error differs from try to try.
	sort := string(apierrors.ReasonForError(err))
	if sort == "" {
		sort = "Unreachable"
	}
	if t.said == sort {
		return
	}
	t.said = sort
	logger.Info("Cannot read which cluster this is; trying again, and going by what was known", "reason", err.Error())
}

// forget is for the end of Run, after which nothing is tried.
func (t *troubles) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open, t.said = nil, ""
}

// notingClient is a client that notes whether lists and watches of claims work.
type notingClient struct {
	versioned.Interface
	// ctx is that of Run: what fails at its end is no trouble.
	ctx      context.Context
	logger   klog.Logger
	troubles *troubles
}

// IsWatchListSemanticsUnSupported makes the informers list before they watch. Otherwise, if the API is away, they sleep for up to a minute
// without checking their context (Reflector.watchList).
func (c *notingClient) IsWatchListSemanticsUnSupported() bool { return true }

// MulticlusterV1alpha1 implements versioned.Interface.
func (c *notingClient) MulticlusterV1alpha1() multiclusterclient.MulticlusterV1alpha1Interface {
	return &notingGroup{c.Interface.MulticlusterV1alpha1(), c}
}

func (c *notingClient) note(request string, err error) {
	if c.ctx.Err() == nil {
		c.troubles.note(c.logger, request, err)
	}
}

type notingGroup struct {
	multiclusterclient.MulticlusterV1alpha1Interface
	noting *notingClient
}

// ClusterClaims implements MulticlusterV1alpha1Interface.
func (g *notingGroup) ClusterClaims() multiclusterclient.ClusterClaimInterface {
	return &notingClaims{g.MulticlusterV1alpha1Interface.ClusterClaims(), g.noting}
}

type notingClaims struct {
	multiclusterclient.ClusterClaimInterface
	noting *notingClient
}

// List implements ClusterClaimInterface.
func (c *notingClaims) List(ctx context.Context, options metav1.ListOptions) (*v1alpha1.ClusterClaimList, error) {
	list, err := c.ClusterClaimInterface.List(ctx, options)
	c.noting.note("list "+options.FieldSelector, err)
	return list, err
}

// Watch implements ClusterClaimInterface.
func (c *notingClaims) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := c.ClusterClaimInterface.Watch(ctx, options)
	c.noting.note("watch "+options.FieldSelector, err)
	return w, err
}
