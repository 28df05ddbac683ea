// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/server/etcd"
)

const (
	// leaseName is the Lease in kube-system of the controllers that run in the leader only.
	leaseName = "annex-controlplane"
	// groupName is the name of these controllers in logs, metrics and health details.
	groupName = "controlplane"
	// leadershipPath serves the roles of the process.
	leadershipPath = "/healthz/leadership"
	// exitTimeout is the time to stop of the embedded etcd if the process has to end at once. It accepts no writes meanwhile, so an expired
	// Lease does no harm.
	exitTimeout = 5 * time.Second
	// restartDelay is the pause before controllers without a Lease are started again.
	restartDelay = time.Second
)

// StopStore returns a Leadership.BeforeExit that calls beforeExit, if it is not nil, and stops an embedded etcd.
func StopStore(backend *etcd.Backend, beforeExit func(error)) func(error) {
	return func(why error) {
		if beforeExit != nil {
			beforeExit(why)
		}
		backend.StopWithin(exitTimeout)
	}
}

// newLeaderRun returns a function that runs the leader's controllers until its context ends. Without Leases there can be only one replica, which
// runs them always.
func newLeaderRun(c *controllerContext) (func(context.Context) error, error) {
	if !c.options.serve(leaseKind) {
		return withoutError(c.runWithoutLease), nil
	}
	elector, err := newElector(c)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		select {
		case <-c.namespaces.Exist(): // the Lease can be created
			return elector.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	}, nil
}

// runWithoutLease restarts the controllers when they end.
func (c *controllerContext) runWithoutLease(ctx context.Context) {
	for ctx.Err() == nil {
		err := leadership.RunWithoutLease(ctx, func() ([]leadership.Runnable, error) { return newLeaderControllers(c, c.loopback.config) })
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Controllers ended and are restarted")
		}
		select {
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
	}
}

// newElector creates the elector of the leader's controllers and its health checks.
func newElector(c *controllerContext) (*leadership.Elector, error) {
	o := c.options.Leadership.ElectorOptions(c.loopback.config, c.options.Gates)
	if o.Owner == "" {
		o.Owner = c.backend.StoreID
	}
	o.BeforeExit = StopStore(c.backend, o.BeforeExit)
	elector, err := leadership.New(o, leadership.Group{
		Name:  groupName,
		Lease: types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: leaseName},
		New: func(term *leadership.Term) ([]leadership.Runnable, error) {
			return newLeaderControllers(c, term.Client())
		},
	})
	if err != nil {
		return nil, fmt.Errorf("create the elector of group %s: %w", groupName, err)
	}
	front := c.chain.front()
	elector.UseMux(front.Handler.NonGoRestfulMux)
	front.Handler.NonGoRestfulMux.Handle(leadershipPath, roles(append([]*leadership.Elector{elector}, c.options.AdditionalElectors...)))
	if err := front.AddReadyzChecks(elector); err != nil {
		return nil, fmt.Errorf("add the readiness check of leadership: %w", err)
	}
	return elector, nil
}

// roles serves the role of each group in plain text, a line each, with status 500 if one is not healthy.
type roles []*leadership.Elector

// ServeHTTP implements http.Handler.
func (r roles) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var text strings.Builder
	status := http.StatusOK
	for _, elector := range r {
		for _, role := range elector.Statuses() {
			_, _ = fmt.Fprintln(&text, role)
		}
		if err := elector.Check(request); err != nil {
			status = http.StatusInternalServerError
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text.String())
}
