// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rootcacertpublisher publishes in every namespace, as the ConfigMap kube-root-ca.crt, by which authorities the server is known. With it
// and a token of its ServiceAccount, a program needs to be told nothing but the server's address.
package rootcacertpublisher

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	informers "k8s.io/client-go/informers/core/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/controllerloop"
)

const (
	// ConfigMapName is the ConfigMap in every namespace.
	ConfigMapName = "kube-root-ca.crt"
	key           = "ca.crt"

	descriptionAnnotation = "kubernetes.io/description"
	description           = "Authorities of the control plane's certificate, for clients that reach it under its internal names."

	// workers is how many namespaces are brought up to date at once.
	workers = 2
	// recheck is how often it is looked whether the authorities have changed.
	recheck = time.Minute
)

// Controller keeps the ConfigMaps.
type Controller struct {
	client      client.ConfigMapsGetter
	namespaces  informers.NamespaceInformer
	configMaps  informers.ConfigMapInformer
	authorities func() ([]byte, error)
}

// New returns a controller that follows the informers, which others start; that of ConfigMaps may know only those of the name.
func New(client client.ConfigMapsGetter, namespaces informers.NamespaceInformer, configMaps informers.ConfigMapInformer, authorities func() ([]byte, error)) *Controller {
	// Asking for them is what has them started.
	namespaces.Informer()
	configMaps.Informer()
	return &Controller{client: client, namespaces: namespaces, configMaps: configMaps, authorities: authorities}
}

// Run keeps the ConfigMaps until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllerloop.Loop{
		Name: "root_ca", Workers: workers, Reconcile: c.reconcile, Background: c.followAuthorities,
		Sources: []controllerloop.Source{
			{Informer: c.namespaces.Informer(), Keys: func(obj any) []string { return []string{obj.(*corev1.Namespace).Name} }},
			{Informer: c.configMaps.Informer(), Keys: func(obj any) []string {
				if configMap := obj.(*corev1.ConfigMap); configMap.Name == ConfigMapName {
					return []string{configMap.Namespace}
				}
				return nil
			}},
		},
	}.Run(ctx)
}

// followAuthorities has all namespaces looked at when the authorities have changed.
func (c *Controller) followAuthorities(ctx context.Context, name func(string)) {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	last, _ := c.authorities()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := c.authorities()
		if err != nil || bytes.Equal(now, last) {
			continue
		}
		last = now
		klog.FromContext(ctx).Info("Publishing the server's new authorities", "configMap", ConfigMapName)
		// Listing from memory cannot fail.
		namespaces, _ := c.namespaces.Lister().List(labels.Everything())
		for _, namespace := range namespaces {
			name(namespace.Name)
		}
	}
}

func (c *Controller) reconcile(ctx context.Context, name string) error {
	namespace, err := c.namespaces.Lister().Get(name)
	if apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil {
		return nil
	}
	if err != nil {
		return err
	}
	authorities, err := c.authorities()
	if err != nil {
		return err
	}
	if err := c.write(ctx, name, map[string]string{key: string(authorities)}); err != nil {
		return fmt.Errorf("write the ConfigMap %s of the namespace %s: %w", ConfigMapName, name, err)
	}
	return nil
}

func (c *Controller) write(ctx context.Context, namespace string, data map[string]string) error {
	current, err := c.configMaps.Lister().ConfigMaps(namespace).Get(ConfigMapName)
	switch {
	case apierrors.IsNotFound(err):
		_, err = c.client.ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: ConfigMapName, Annotations: map[string]string{descriptionAnnotation: description}},
			Data:       data,
		}, metav1.CreateOptions{})
		// One that exists will be seen; the namespace may have gone, or be going, by now.
		if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return err
	case err != nil:
		return err
	case maps.Equal(current.Data, data) && len(current.BinaryData) == 0 && current.Annotations[descriptionAnnotation] != "":
		return nil
	}
	updated := current.DeepCopy()
	updated.Data, updated.BinaryData = data, nil
	if updated.Annotations[descriptionAnnotation] == "" {
		metav1.SetMetaDataAnnotation(&updated.ObjectMeta, descriptionAnnotation, description)
	}
	_, err = c.client.ConfigMaps(namespace).Update(ctx, updated, metav1.UpdateOptions{})
	// What has changed or gone meanwhile is seen again, as it is then.
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
