// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	informers "github.com/kube-annex/annex/generated/informers/externalversions/multicluster/v1alpha1"
)

// controller copies the value of a claim into a ConfigMap.
type controller struct {
	cluster kubernetes.Interface
	claims  informers.ClusterClaimInformer
	writer  string
	// changed has room for one signal; more would say nothing new.
	changed chan struct{}
	handler cache.ResourceEventHandlerRegistration
}

func newController(cluster kubernetes.Interface, claims informers.ClusterClaimInformer, writer string) (*controller, error) {
	c := &controller{cluster: cluster, claims: claims, writer: writer, changed: make(chan struct{}, 1)}
	var err error
	c.handler, err = claims.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.signal() },
		UpdateFunc: func(_, _ any) { c.signal() },
	})
	return c, err
}

func (c *controller) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Run copies until the context ends. An error ends the term, and another one, here or elsewhere, tries again.
func (c *controller) Run(ctx context.Context) error {
	defer func() { _ = c.claims.Informer().RemoveEventHandler(c.handler) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		}
		if err := c.copy(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (c *controller) copy(ctx context.Context) error {
	claim, err := c.claims.Lister().Get("id.k8s.io")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	id := coreapply.ConfigMap("cluster-id", metav1.NamespaceDefault).
		WithData(map[string]string{"id": claim.Spec.Value, "writtenBy": c.writer})
	apply := metav1.ApplyOptions{FieldManager: "leader-elected-controller", Force: true}
	if _, err := c.cluster.CoreV1().ConfigMaps(metav1.NamespaceDefault).Apply(ctx, id, apply); err != nil {
		return fmt.Errorf("write the ConfigMap: %w", err)
	}
	return nil
}
