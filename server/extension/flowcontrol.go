// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/filters"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// hostRetry is how soon a host that did not answer is asked again.
	hostRetry = 2 * time.Second
	// flowControlRecheck is how soon a host without flow schemas is asked again, in case it was upgraded.
	flowControlRecheck = time.Minute
)

// flowControl queues requests by the host's flow schemas once those are known. Until then, and for ever with a host
// that has none, requests above a fixed number are refused.
type flowControl struct {
	client     kubernetes.Interface
	informers  informers.SharedInformerFactory
	controller utilflowcontrol.Interface
	active     atomic.Bool
}

func newFlowControl(client kubernetes.Interface, seats int) *flowControl {
	// Its own factory: the server's is part of readiness, and would never be complete with a host that has no flow schemas.
	factory := informers.NewSharedInformerFactory(client, 0)
	return &flowControl{
		client:     client,
		informers:  factory,
		controller: utilflowcontrol.New(factory, client.FlowcontrolV1(), seats),
	}
}

// applyTo builds both handler chains, so that the choice between them can be made while serving.
func (f *flowControl) applyTo(config *genericapiserver.Config) error {
	config.FlowControl = f.controller
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		limited := *c
		limited.FlowControl = nil
		byNumber, bySchema := build(api, &limited), build(api, c)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if f.active.Load() {
				bySchema.ServeHTTP(w, r)
			} else {
				byNumber.ServeHTTP(w, r)
			}
		})
	}
	return config.AddPostStartHook("max-in-flight-filter", func(hook genericapiserver.PostStartHookContext) error {
		filters.StartMaxInFlightWatermarkMaintenance(hook.Done())
		return nil
	})
}

// Run looks for the host's flow schemas and follows them until the context ends.
func (f *flowControl) Run(ctx context.Context) {
	for said := false; ; {
		_, err := f.client.Discovery().ServerResourcesForGroupVersionWithContext(ctx, flowcontrolv1.SchemeGroupVersion.String())
		again := hostRetry
		switch {
		case err == nil:
			f.follow(ctx)
			return
		case apierrors.IsNotFound(err):
			if !said {
				klog.FromContext(ctx).Info("The host has no flow schemas; requests are limited by number instead of queued by priority")
				said = true
			}
			again = flowControlRecheck
		default:
			klog.FromContext(ctx).V(2).Info("The host's flow schemas are not known yet; trying again", "reason", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

func (f *flowControl) follow(ctx context.Context) {
	schemas := f.informers.Flowcontrol().V1().FlowSchemas().Informer()
	levels := f.informers.Flowcontrol().V1().PriorityLevelConfigurations().Informer()
	f.informers.Start(ctx.Done())
	defer f.informers.Shutdown()
	if cache.WaitForCacheSync(ctx.Done(), schemas.HasSynced, levels.HasSynced) {
		f.active.Store(true)
	}
	<-ctx.Done()
}
