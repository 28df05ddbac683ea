// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/featuregate/lifecycle"
)

// patience is the time before the log says that features wait: the host and this server often start together.
const patience = 10 * time.Second

// wait returns true when the engine can work, or false if the context has ended before. It logs once what is missing.
func (e *Engines) wait(ctx context.Context, options *lifecycle.Options) bool {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "namespace", options.Namespace)
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Steps: 12, Cap: 5 * time.Second, Jitter: 0.2}
	began, said := time.Now(), false
	for {
		err := e.check(ctx, options)
		if err == nil {
			if said {
				logger.Info("Features of this namespace need not wait any more")
			}
			return true
		}
		if !said && time.Since(began) > patience && ctx.Err() == nil {
			logger.Info("Features of this namespace have to wait; trying again", "reason", err.Error())
			said = true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(backoff.Step()):
		}
	}
}

// check returns an error if something that the engine needs is missing. It reads the existing Features.
func (e *Engines) check(ctx context.Context, options *lifecycle.Options) error {
	namespace := options.Namespace
	for _, of := range slices.Compact([]string{namespace, featuregate.LeaseNamespace}) {
		_, err := options.Leases.Leases(of).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case apierrors.IsForbidden(err):
			return fmt.Errorf("the server needs to read Leases in namespace %s; bind the ClusterRole annex-feature-lifecycle to it there: %w", of, err)
		case apierrors.IsNotFound(err):
			return fmt.Errorf("the host has no Leases: %w", err)
		case err != nil:
			return fmt.Errorf("ask the host for Leases: %w", err)
		}
	}
	var err error
	if _, err = e.config.Host.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("ask the host for the namespace: %w", err)
	}
	features := e.client.FeaturesV1alpha1().Features(namespace)
	list, err := features.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("read the Features: %w", err)
	}
	// Admission must have seen the namespace, too.
	trial := &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: options.Features[0].Name}}
	_, err = features.Create(ctx, trial, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("try to write a Feature: %w", err)
	}
	if options.Component == ComponentOfOthers {
		adopt(ctx, options, list.Items)
	}
	return nil
}

// adopt copies defaults and stability from the reports of reporters, since --features has only the value. It logs observed Features, which
// are not set.
func adopt(ctx context.Context, options *lifecycle.Options, there []v1alpha1.Feature) {
	for i := range there {
		status := &there[i].Status
		at := slices.IndexFunc(options.Features, func(f lifecycle.Feature) bool { return f.Name == there[i].Name })
		switch {
		case at < 0:
		case status.Source == v1alpha1.SourceObserved:
			klog.FromContext(ctx).Info("--features does not set this Feature, since it is observed: its component has the value from its own flags",
				"feature", klog.KObj(&there[i]))
		case status.Default != "":
			options.Features[at].Default, options.Features[at].Stability = status.Default, status.Stability
		}
	}
}
