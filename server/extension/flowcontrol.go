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
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/server/internal/authorization"
	"github.com/kube-annex/annex/server/internal/filters"
)

const (
	// hostRetry is how soon a host that did not answer is asked again.
	hostRetry = 2 * time.Second
	// flowControlRecheck is how soon a host without flow schemas is asked again, in case it was upgraded.
	flowControlRecheck = time.Minute
	// flowControlPatience is how long a server that starts waits for the host's flow schemas before it takes requests without.
	flowControlPatience = 5 * time.Second
)

// flowControl enables the queues of the filter when the host's flow schemas are known. With a host that has none they stay off.
type flowControl struct {
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	filter    *filters.FlowControl
	// decided is set when the host has answered whether it has flow schemas. The server is ready without it after waitUntil.
	decided   atomic.Bool
	waitUntil time.Time
}

// newFlowControl takes the limits of requests in flight.
func newFlowControl(client kubernetes.Interface, readOnly, mutating int) *flowControl {
	// Its own factory: the server's is part of readiness, and would never be complete with a host that has no flow schemas.
	factory := informers.NewSharedInformerFactory(client, 0)
	queues := utilflowcontrol.New(factory, client.FlowcontrolV1(), readOnly+mutating)
	return &flowControl{
		client:    client,
		informers: factory,
		filter:    filters.NewFlowControl(queues, readOnly, mutating, authorization.IsHealthPath),
		waitUntil: time.Now().Add(flowControlPatience),
	}
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
		f.filter.EnableQueues()
		f.decided.Store(true)
	}
	<-ctx.Done()
}
