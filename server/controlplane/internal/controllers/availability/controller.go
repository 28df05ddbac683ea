// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package availability finds out whether the servers behind remote APIServices answer, and says so in the condition
// Available. The aggregator proxies only to those that do.
//
// Upstream's controller looks at Services and EndpointSlices first. A control plane without these kinds resolves services
// in code, and the only thing to look at is the server itself: it is asked for the discovery document of the APIService's
// version, the way the aggregator would.
package availability

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
)

const (
	// recheck is how often a server that answers is asked again.
	recheck = 30 * time.Second
	// firstRetry and lastRetry bound how soon one that does not answer is asked again. A start waits for the first ones.
	firstRetry = 25 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Controller sets Available on remote APIServices.
type Controller struct {
	informer cache.SharedIndexInformer
	lister   listers.APIServiceLister
	client   apiregistrationclient.APIServicesGetter
	probe    probe
}

// New returns a controller that follows the informer, which others start. Its handlers are on the informer only while it runs,
// since their queue has goroutines of its own. The servers are reached as the aggregator reaches them.
func New(informer informers.APIServiceInformer, client apiregistrationclient.APIServicesGetter, servers remoteservers.Servers) *Controller {
	return &Controller{
		informer: informer.Informer(), lister: informer.Lister(), client: client,
		probe: probe{servers},
	}
}

// Run asks servers until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "remote_availability"})
	registration, err := c.informer.AddEventHandler(leadership.EventHandler(ctx, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { enqueue(queue, nil, obj.(*apiregistrationv1.APIService)) },
		UpdateFunc: func(old, obj any) {
			enqueue(queue, old.(*apiregistrationv1.APIService), obj.(*apiregistrationv1.APIService))
		},
	}))
	if err != nil {
		queue.ShutDown()
		return fmt.Errorf("follow APIServices: %w", err)
	}
	defer func() { _ = c.informer.RemoveEventHandler(registration) }()
	defer context.AfterFunc(ctx, queue.ShutDown)()
	c.work(ctx, queue)
	return nil
}

// enqueue asks at once after a change of the spec or of an annotation, which is how a server says that it has just
// started. Changes of the status are our own.
func enqueue(queue workqueue.TypedRateLimitingInterface[string], old, service *apiregistrationv1.APIService) {
	if service.Spec.Service == nil {
		return
	}
	if old != nil && equality.Semantic.DeepEqual(old.Spec, service.Spec) && equality.Semantic.DeepEqual(old.Annotations, service.Annotations) {
		return
	}
	queue.Forget(service.Name)
	queue.Add(service.Name)
}

// work asks each server in a goroutine of its own, and not in one of a few workers as with package workloop: one that hangs delays no other.
// It returns when the queue is shut down and all are done.
func (c *Controller) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string]) {
	var working sync.WaitGroup
	defer working.Wait()
	for {
		name, shutdown := queue.Get()
		if shutdown {
			return
		}
		leadership.Go(ctx, &working, func() {
			defer queue.Done(name)
			again, err := c.sync(ctx, name, queue.NumRequeues(name) == 0)
			switch {
			case err != nil:
				klog.FromContext(ctx).V(2).Info("APIService is not available; asking again", "apiService", name, "reason", err.Error())
				queue.AddRateLimited(name)
			case again:
				queue.Forget(name)
				queue.AddAfter(name, recheck)
			}
		})
	}
}

// sync asks the server once and records the answer. It returns whether to ask again after a success, and an error where
// to ask again soon. A first failure of a server that was available decides nothing: all its requests would be refused because
// the machine was busy for a moment, or the one replica that was asked is about to stop.
func (c *Controller) sync(ctx context.Context, name string, first bool) (bool, error) {
	existing, err := c.lister.Get(name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if existing.Spec.Service == nil {
		return false, nil
	}
	asked := existing.Spec
	failure := c.probe.ask(ctx, existing)
	if ctx.Err() != nil {
		return false, nil
	}
	// Servers say that they have changed by changing their APIServices, which may well be while they are asked.
	existing, err = c.lister.Get(name)
	if apierrors.IsNotFound(err) || err == nil && !equality.Semantic.DeepEqual(asked, existing.Spec) {
		return false, nil // it is in the queue again, if it still exists
	}
	if err != nil {
		return false, err
	}
	if failure != nil && first && helper.IsAPIServiceConditionTrue(existing, apiregistrationv1.Available) {
		return false, failure
	}
	service := existing.DeepCopy()
	helper.SetAPIServiceCondition(service, condition(failure))
	if !equality.Semantic.DeepEqual(service.Status, existing.Status) {
		if _, err := c.client.APIServices().UpdateStatus(ctx, service, metav1.UpdateOptions{}); err != nil {
			return false, fmt.Errorf("write status: %w", err)
		}
	}
	return true, failure
}

func condition(failure error) apiregistrationv1.APIServiceCondition {
	condition := apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue,
		Reason: "Passed", Message: "all checks passed", LastTransitionTime: metav1.Now(),
	}
	if failure != nil {
		condition.Status = apiregistrationv1.ConditionFalse
		condition.Reason = "FailedDiscoveryCheck"
		condition.Message = failure.Error()
	}
	return condition
}
