// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrappolicy brings about the roles and bindings that there are from the start.
//
// At every start what is missing of them is added: objects, rules, subjects, labels. What administrators have added stays, and an
// object that they annotate with rbac.authorization.kubernetes.io/autoupdate: "false" stays as it is. A binding that refers to
// another role than it should is made anew, since that cannot be changed. What is taken away while the server runs comes back with
// the next start.
//
// Every replica does so, as upstream: nobody but administrators is authorized before, the replica that leads included.
package bootstrappolicy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	informers "k8s.io/client-go/informers/rbac/v1"
	client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// writers is how many objects are written at once.
	writers = 16
	// seeInterval is how often the informers are asked whether they have what was written.
	seeInterval = 2 * time.Millisecond
	// seePatience is how long they get before all is looked at again.
	seePatience = time.Second
	// firstRetry and lastRetry bound how long it takes to try again after a failure.
	firstRetry = 20 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Controller brings a policy about.
type Controller struct {
	client    client.RbacV1Interface
	informers informers.Interface
	synced    []cache.DoneChecker
	objects   []object
	ready     chan struct{}
}

// New returns a controller that reads from the informers, which others start.
func New(client client.RbacV1Interface, informers informers.Interface, policy Policy) (*Controller, error) {
	c := &Controller{client: client, informers: informers, ready: make(chan struct{})}
	for _, informer := range []cache.SharedIndexInformer{
		informers.Roles().Informer(), informers.RoleBindings().Informer(),
		informers.ClusterRoles().Informer(), informers.ClusterRoleBindings().Informer(),
	} {
		c.synced = append(c.synced, informer.HasSyncedChecker())
	}
	var err error
	c.objects, err = c.objectsOf(policy.marked())
	return c, err
}

// Ready is closed when the informers have all of the policy.
func (c *Controller) Ready() <-chan struct{} { return c.ready }

// Check is a readiness check: it fails until all roles and bindings are there.
func (c *Controller) Check(*http.Request) error {
	select {
	case <-c.ready:
		return nil
	default:
		return errors.New("the roles and bindings of the start are being brought about")
	}
}

// Run returns when the policy has been brought about, or when the context ends. What is in a namespace waits for the channel.
func (c *Controller) Run(ctx context.Context, namespaces <-chan struct{}) {
	if !cache.WaitFor(ctx, "", c.synced...) {
		return
	}
	for retry := firstRetry; ctx.Err() == nil; retry = min(2*retry, lastRetry) {
		err := c.ensure(ctx, namespaces)
		if err == nil && c.seen(ctx) {
			close(c.ready)
			return
		}
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Roles and bindings could not be brought about yet; trying again", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}

// ensure writes what is missing, several objects at once.
func (c *Controller) ensure(ctx context.Context, namespaces <-chan struct{}) error {
	errs := make([]error, len(c.objects))
	turn := make(chan struct{}, writers)
	var running sync.WaitGroup
	for i, object := range c.objects {
		if done, err := object.reconcile(ctx, false); done && err == nil {
			continue
		}
		running.Go(func() {
			if object.namespaced {
				select {
				case <-namespaces:
				case <-ctx.Done():
				}
			}
			turn <- struct{}{}
			defer func() { <-turn }()
			if _, err := object.reconcile(ctx, true); err != nil {
				errs[i] = fmt.Errorf("%s: %w", object.name, err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// seen waits until the informers have what was written.
func (c *Controller) seen(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, seePatience)
	defer cancel()
	interval := time.NewTicker(seeInterval)
	defer interval.Stop()
	for _, object := range c.objects {
		for {
			if done, err := object.reconcile(ctx, false); done && err == nil {
				break
			}
			select {
			case <-interval.C:
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}
