// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterroleaggregation keeps the rules of aggregated ClusterRoles: those of the roles that they select.
package clusterroleaggregation

import (
	"context"
	"errors"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	informers "k8s.io/client-go/informers/rbac/v1"
	client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/internal/workloop"
)

const (
	// manager owns the rules that are aggregated, as in every Kubernetes cluster.
	manager = "clusterrole-aggregation-controller"
	// firstRetry and lastRetry bound how long it takes to try again after a failure.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// Controller keeps the rules.
type Controller struct {
	client  client.ClusterRolesGetter
	roles   informers.ClusterRoleInformer
	changed chan struct{}
}

// New returns a controller that reads from the informer, which others start.
func New(client client.ClusterRolesGetter, roles informers.ClusterRoleInformer) *Controller {
	roles.Informer() // requests the informer from the factory
	return &Controller{client: client, roles: roles, changed: make(chan struct{}, 1)}
}

// wake has all aggregated roles looked at: which of them a role belongs to is known only by asking each.
func (c *Controller) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Run keeps the rules until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	handler, err := c.roles.Informer().AddEventHandler(leadership.EventHandler(ctx, cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.wake() },
		UpdateFunc: func(before, after any) {
			if before.(*rbacv1.ClusterRole).ResourceVersion != after.(*rbacv1.ClusterRole).ResourceVersion {
				c.wake()
			}
		},
		DeleteFunc: func(any) { c.wake() },
	}))
	if err != nil {
		return fmt.Errorf("watch ClusterRoles: %w", err)
	}
	defer func() { _ = c.roles.Informer().RemoveEventHandler(handler) }()
	if !cache.WaitFor(ctx, "", handler.HasSyncedChecker()) {
		return nil
	}
	workloop.Repeat{FirstRetry: firstRetry, LastRetry: lastRetry, Signals: c.changed}.Run(ctx, c.aggregate, func(err error) {
		klog.FromContext(ctx).V(2).Info("ClusterRoles could not be aggregated; trying again", "reason", err.Error())
	})
	return nil
}

// aggregate writes the rules that differ. One role that cannot be written does not keep it from the others.
func (c *Controller) aggregate(ctx context.Context) error {
	all, err := c.roles.Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list ClusterRoles: %w", err)
	}
	var errs []error
	for _, role := range all {
		if role.AggregationRule == nil {
			continue
		}
		rules, err := Aggregate(role, all)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if equality.Semantic.DeepEqual(rules, role.Rules) {
			continue
		}
		// A role that is gone or has changed is seen again, as it is then.
		if err := c.write(ctx, role, rules); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("write the rules of ClusterRole %s: %w", role.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) write(ctx context.Context, role *rbacv1.ClusterRole, rules []rbacv1.PolicyRule) error {
	updated := role.DeepCopy()
	updated.Rules = rules
	_, err := c.client.ClusterRoles().Update(ctx, updated, metav1.UpdateOptions{FieldManager: manager})
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Aggregated", "clusterRole", role.Name, "rules", len(rules))
	}
	return err
}
