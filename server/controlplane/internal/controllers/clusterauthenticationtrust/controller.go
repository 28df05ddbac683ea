// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterauthenticationtrust publishes whom this server trusts to authenticate users.
//
// Extension servers behind the aggregator read the ConfigMap kube-system/extension-apiserver-authentication: the
// authorities of client certificates, and those of front proxies with the headers the proxies name users in. Replicas add
// to what is there instead of replacing it, so that authorities can be exchanged one replica after the other; certificates
// leave when they expire.
package clusterauthenticationtrust

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/internal/workloop"
)

const (
	namespace = metav1.NamespaceSystem
	name      = "extension-apiserver-authentication"

	// recheck is how often expired certificates are looked for.
	recheck = 10 * time.Minute
	// firstRetry and lastRetry bound how long it takes to try again after a failure.
	firstRetry = 20 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Trust is what is published. Either part may be nil.
type Trust struct {
	ClientCA      dynamiccertificates.CAContentProvider
	RequestHeader *authenticatorfactory.RequestHeaderConfig
}

// Controller maintains the ConfigMap.
type Controller struct {
	client kubernetes.Interface
	trust  Trust
	// after is closed when the ConfigMap's namespace can be expected to exist.
	after <-chan struct{}
	// changed has room for one signal; more would say nothing new.
	changed   chan struct{}
	published chan struct{}
	once      sync.Once
}

// New returns a controller that waits for after before it writes.
func New(client kubernetes.Interface, trust Trust, after <-chan struct{}) *Controller {
	c := &Controller{client: client, trust: trust, after: after, changed: make(chan struct{}, 1), published: make(chan struct{})}
	if trust.ClientCA != nil {
		trust.ClientCA.AddListener(c)
	}
	if trust.RequestHeader != nil {
		trust.RequestHeader.CAContentProvider.AddListener(c)
	}
	return c
}

// Enqueue is called when a file with authorities has changed.
func (c *Controller) Enqueue() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Check is a readiness check: it fails until the ConfigMap says what it should.
func (c *Controller) Check(*http.Request) error {
	select {
	case <-c.published:
		return nil
	default:
		return errors.New("the ConfigMap kube-system/extension-apiserver-authentication is being written")
	}
}

// Run maintains the ConfigMap until the context ends.
func (c *Controller) Run(ctx context.Context) {
	select {
	case <-c.after:
	case <-ctx.Done():
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { c.informer().RunWithContext(ctx) })
	publish := func(ctx context.Context) error {
		err := c.sync(ctx)
		if err == nil {
			c.once.Do(func() { close(c.published) })
		}
		return err
	}
	repeat := workloop.Repeat{Interval: recheck, FirstRetry: firstRetry, LastRetry: lastRetry, Signals: c.changed}
	repeat.Run(ctx, publish, func(err error) {
		klog.FromContext(ctx).V(2).Info("Whom this server trusts could not be published; trying again", "reason", err.Error())
	})
}

// informer signals when somebody else changes or deletes the ConfigMap.
func (c *Controller) informer() cache.SharedIndexInformer {
	informer := coreinformers.NewFilteredConfigMapInformer(c.client, namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	})
	// Only an informer that has been stopped refuses handlers.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, _ any) { c.Enqueue() },
		DeleteFunc: func(any) { c.Enqueue() },
	})
	return informer
}

func (c *Controller) sync(ctx context.Context) error {
	configMaps := c.client.CoreV1().ConfigMaps(namespace)
	existing, err := configMaps.Get(ctx, name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if missing {
		existing, err = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, nil
	}
	if err != nil {
		return fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
	}
	data := c.trust.mergeInto(existing.Data, time.Now())
	if !missing && maps.Equal(data, existing.Data) {
		return nil
	}
	existing.Data = data
	if missing {
		_, err = configMaps.Create(ctx, existing, metav1.CreateOptions{})
	} else {
		_, err = configMaps.Update(ctx, existing, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}
