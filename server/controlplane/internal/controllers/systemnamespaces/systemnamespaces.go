// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package systemnamespaces keeps the namespaces in existence that a control plane and its clients rely on.
package systemnamespaces

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/internal/workloop"
)

const (
	// recheck is how often the namespaces are looked at.
	recheck = time.Minute
	// firstRetry and lastRetry bound how long it takes to try again after a failure.
	firstRetry = 20 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Controller creates namespaces that are missing.
type Controller struct {
	client     kubernetes.Interface
	namespaces []string
	exist      chan struct{}
	once       sync.Once
}

// New returns a controller for the named namespaces.
func New(client kubernetes.Interface, namespaces ...string) *Controller {
	return &Controller{client: client, namespaces: namespaces, exist: make(chan struct{})}
}

// Exist is closed when all namespaces have been seen or created once.
func (c *Controller) Exist() <-chan struct{} { return c.exist }

// Check is a readiness check: it fails until all namespaces exist.
func (c *Controller) Check(*http.Request) error {
	select {
	case <-c.exist:
		return nil
	default:
		return errors.New("system namespaces are being created")
	}
}

// Run keeps the namespaces until the context ends.
func (c *Controller) Run(ctx context.Context) {
	workloop.Repeat{Interval: recheck, FirstRetry: firstRetry, LastRetry: lastRetry}.Run(ctx, c.ensure, func(err error) {
		klog.FromContext(ctx).V(2).Info("System namespaces could not be created yet; trying again", "reason", err.Error())
	})
}

func (c *Controller) ensure(ctx context.Context) error {
	for _, name := range c.namespaces {
		_, err := c.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	c.once.Do(func() { close(c.exist) })
	return nil
}
