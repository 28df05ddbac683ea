// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversionmigrator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiextensionsv1client "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	informers "k8s.io/client-go/informers/storagemigration/v1"
	"k8s.io/client-go/kubernetes"
	typedstoragemigrationv1 "k8s.io/client-go/kubernetes/typed/storagemigration/v1"
	listers "k8s.io/client-go/listers/storagemigration/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/controllerloop"
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/resourcediscovery"
)

const (
	// Requests of all migrations together are limited, so that many of them leave room for others.
	requestsPerSecond = 200
	requestBurst      = 400
	// workers is how many resources are migrated at once.
	workers = 3
)

type migration = storagemigrationv1.StorageVersionMigration

// Controller migrates.
type Controller struct {
	informer    cache.SharedIndexInformer
	lister      listers.StorageVersionMigrationLister
	migrations  typedstoragemigrationv1.StorageVersionMigrationInterface
	definitions apiextensionsv1client.CustomResourceDefinitionInterface
	objects     metadata.Interface
	kinds       resourcediscovery.Kinds
	settle      time.Duration
}

// New returns a controller that follows the informer, which others start, and does its work with clients of the configuration. What is in
// store is looked at no sooner than settle after a migration was seen, so that all replicas have heard by then of what it is about.
func New(config *rest.Config, informer informers.StorageVersionMigrationInformer, settle time.Duration) (*Controller, error) {
	config = rest.CopyConfig(config)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(requestsPerSecond, requestBurst)
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up requests about migrations: %w", err)
	}
	client, err := kubernetes.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("make the client for migrations: %w", err)
	}
	objects, err := metadata.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("make the client for what is migrated: %w", err)
	}
	plain := rest.CopyConfig(config)
	plain.ContentType = "" // custom resources and their definitions have no other than JSON
	definitions, err := apiextensionsclient.NewForConfigAndClient(plain, transport)
	if err != nil {
		return nil, fmt.Errorf("make the client for definitions of custom resources: %w", err)
	}
	return &Controller{
		informer: informer.Informer(), lister: informer.Lister(), migrations: client.StoragemigrationV1().StorageVersionMigrations(),
		definitions: definitions.ApiextensionsV1().CustomResourceDefinitions(), objects: objects,
		kinds: resourcediscovery.NewKinds(client.Discovery().RESTClient()), settle: settle,
	}, nil
}

// Run migrates until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	return controllerloop.Loop{
		Name: "storage_migration", Workers: workers, Reconcile: c.next,
		Sources: []controllerloop.Source{{Informer: c.informer, Keys: func(obj any) []string {
			if m, ok := obj.(*migration); ok && !ended(m) {
				return []string{resourceOf(m).String()}
			}
			return nil
		}}},
	}.Run(ctx)
}

func resourceOf(m *migration) schema.GroupResource {
	return schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}
}

// next does the migrations of a resource one after the other, the oldest first.
func (c *Controller) next(ctx context.Context, resource string) error {
	all, err := c.lister.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list migrations: %w", err)
	}
	var waiting []*migration
	for _, m := range all {
		if resourceOf(m).String() == resource && !ended(m) {
			waiting = append(waiting, m)
		}
	}
	slices.SortFunc(waiting, func(a, b *migration) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, m := range waiting {
		if err := c.migrate(ctx, m); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// wanted tells whether a migration is still to be done.
func (c *Controller) wanted(m *migration) bool {
	current, err := c.lister.Get(m.Name)
	return err == nil && current.UID == m.UID && current.DeletionTimestamp == nil && !ended(current)
}
