// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/healthz"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/server/options"
)

const (
	// hostRetry is how soon a host that did not answer is asked again.
	hostRetry = 2 * time.Second
	// flowControlRecheck is how soon a host without flow schemas is asked again, in case it was upgraded.
	flowControlRecheck = time.Minute
	// flowControlPatience is how long a server that starts waits for the host's flow schemas before it takes requests without.
	flowControlPatience = 5 * time.Second
)

// flowControl queues requests by the host's flow schemas once those are known. Until then, and for ever with a host
// that has none, requests above a fixed number are refused, except for health checks: those that ask would end a server that has
// only much to do.
type flowControl struct {
	client     kubernetes.Interface
	informers  informers.SharedInformerFactory
	controller utilflowcontrol.Interface
	active     atomic.Bool
	// decided is whether it is known, by now or for now, if requests are queued; it is as well once waitUntil is over.
	decided   atomic.Bool
	waitUntil time.Time
}

func newFlowControl(client kubernetes.Interface, seats int) *flowControl {
	// Its own factory: the server's is part of readiness, and would never be complete with a host that has no flow schemas.
	factory := informers.NewSharedInformerFactory(client, 0)
	return &flowControl{
		client:     client,
		informers:  factory,
		controller: utilflowcontrol.New(factory, client.FlowcontrolV1(), seats),
		waitUntil:  time.Now().Add(flowControlPatience),
	}
}

// applyTo builds all handler chains, so that the choice between them can be made while serving.
func (f *flowControl) applyTo(config *genericapiserver.Config) error {
	config.FlowControl = f.controller
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		limited := *c
		limited.FlowControl = nil
		unlimited := limited
		unlimited.MaxRequestsInFlight, unlimited.MaxMutatingRequestsInFlight = 0, 0
		byNumber, bySchema, atOnce := build(api, &limited), build(api, c), build(api, &unlimited)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case f.active.Load():
				bySchema.ServeHTTP(w, r)
			case options.IsHealthPath(r.URL.Path):
				atOnce.ServeHTTP(w, r)
			default:
				byNumber.ServeHTTP(w, r)
			}
		})
	}
	config.AddReadyzChecks(healthz.NamedCheck("flow-schemas", f.check))
	return config.AddPostStartHook("max-in-flight-filter", func(hook genericapiserver.PostStartHookContext) error {
		filters.StartMaxInFlightWatermarkMaintenance(hook.Done())
		return nil
	})
}

// check is a readiness check.
func (f *flowControl) check(*http.Request) error {
	if !f.decided.Load() && time.Now().Before(f.waitUntil) {
		return errors.New("the host's flow schemas are not known yet")
	}
	return nil
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
		f.decided.Store(true)
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
		f.decided.Store(true)
	}
	<-ctx.Done()
}
