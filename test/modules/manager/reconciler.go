// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	finalizer = "sites.example.com/register"
	// register is the ConfigMap, in each namespace, that lists the namespace's sites. Nothing owns it: it is what the finalizer is for.
	register = "site-register"
)

// sites keeps a ConfigMap with the pages of each Site, which the Site owns, and an entry in the register.
type sites struct {
	client.Client
	recorder events.EventRecorder
}

func addSites(mgr ctrl.Manager) error {
	r := &sites{Client: mgr.GetClient(), recorder: mgr.GetEventRecorder("sites")}
	return ctrl.NewControllerManagedBy(mgr).Named("sites").For(&Site{}).Owns(&corev1.ConfigMap{}).Complete(r)
}

// Reconcile brings about what one Site asks for.
func (r *sites) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &Site{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, site)
	}
	if controllerutil.AddFinalizer(site, finalizer) {
		if err := r.Update(ctx, site); err != nil {
			return ctrl.Result{}, fmt.Errorf("add the finalizer: %w", err)
		}
	}
	if err := r.enter(ctx, site); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.publish(ctx, site); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, site)
}

func (r *sites) publish(ctx context.Context, site *Site) error {
	pages := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	done, err := controllerutil.CreateOrUpdate(ctx, r, pages, func() error {
		pages.Data = site.Spec.Pages
		return controllerutil.SetControllerReference(site, pages, r.Scheme())
	})
	if err != nil {
		return fmt.Errorf("publish the pages: %w", err)
	}
	if done != controllerutil.OperationResultNone {
		r.recorder.Eventf(site, pages, corev1.EventTypeNormal, "Published", "Publish", "%d pages", len(site.Spec.Pages))
	}
	return nil
}

func (r *sites) report(ctx context.Context, site *Site) error {
	before := site.deepCopy()
	site.Status.Pages = len(site.Spec.Pages)
	meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Published", Message: "All pages are published.", ObservedGeneration: site.Generation,
	})
	if equality.Semantic.DeepEqual(before.Status, site.Status) {
		return nil
	}
	if err := r.Status().Update(ctx, site); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// finalize leaves the pages to the garbage collector.
func (r *sites) finalize(ctx context.Context, site *Site) error {
	if !controllerutil.ContainsFinalizer(site, finalizer) {
		return nil
	}
	entries := registerOf(site)
	if err := r.Get(ctx, client.ObjectKeyFromObject(entries), entries); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the register: %w", err)
	}
	// Where the whole namespace goes, the register may be gone before.
	if _, ok := entries.Data[site.Name]; ok {
		delete(entries.Data, site.Name)
		if err := r.Update(ctx, entries); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("leave the register: %w", err)
		}
	}
	controllerutil.RemoveFinalizer(site, finalizer)
	if err := r.Update(ctx, site); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	return nil
}

func (r *sites) enter(ctx context.Context, site *Site) error {
	entries := registerOf(site)
	_, err := controllerutil.CreateOrUpdate(ctx, r, entries, func() error {
		if entries.Data == nil {
			entries.Data = map[string]string{}
		}
		entries.Data[site.Name] = strconv.Itoa(len(site.Spec.Pages))
		return nil
	})
	if err != nil {
		return fmt.Errorf("enter the register: %w", err)
	}
	return nil
}

func registerOf(site *Site) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: register}}
}
