// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"context"
	"slices"
	"sync/atomic"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/user"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	fairqueuing "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// FlowControl is what upstream's filter WithPriorityAndFairness asks. It queues requests by flow schema once EnableQueues was called. Before,
// it rejects requests above a fixed number, except health checks: a probe that fails would restart a server that is only busy.
type FlowControl struct {
	utilflowcontrol.Interface
	queues             atomic.Bool
	exempt             func(path string) bool
	readOnly, mutating chan struct{}
}

// NewFlowControl returns a FlowControl with limits as in Config.MaxRequestsInFlight and Config.MaxMutatingRequestsInFlight; 0 is no limit.
func NewFlowControl(queues utilflowcontrol.Interface, readOnly, mutating int, exempt func(path string) bool) *FlowControl {
	f := &FlowControl{Interface: queues, exempt: exempt}
	if readOnly > 0 {
		f.readOnly = make(chan struct{}, readOnly)
	}
	if mutating > 0 {
		f.mutating = make(chan struct{}, mutating)
	}
	return f
}

// EnableQueues switches from limits by number to queues.
func (f *FlowControl) EnableQueues() { f.queues.Store(true) }

// Handle implements flowcontrol.Interface. Long-running requests other than watches do not get here.
func (f *FlowControl) Handle(ctx context.Context, digest utilflowcontrol.RequestDigest,
	note func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	estimate func() flowcontrolrequest.WorkEstimate, queueNote fairqueuing.QueueNoteFn, execute func(),
) {
	if f.queues.Load() {
		f.Interface.Handle(ctx, digest, note, estimate, queueNote, execute)
		return
	}
	seats := f.mutating
	if verb := digest.RequestInfo.Verb; verb == "get" || verb == "list" {
		seats = f.readOnly
	}
	if seats == nil || digest.RequestInfo.Verb == "watch" || f.exempt(digest.RequestInfo.Path) {
		execute()
		return
	}
	select {
	case seats <- struct{}{}:
		defer func() { <-seats }()
		execute()
	default:
		if slices.Contains(digest.User.GetGroups(), user.SystemPrivilegedGroup) {
			execute()
			return
		}
		// The filter counts what it rejects by priority level.
		note(bootstrap.MandatoryFlowSchemaCatchAll, bootstrap.MandatoryPriorityLevelConfigurationCatchAll, "")
	}
}
