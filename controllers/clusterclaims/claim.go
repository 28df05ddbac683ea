// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaims

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	multicluster "github.com/kube-annex/annex/generated/clientset/versioned/typed/multicluster/v1alpha1"
	informers "github.com/kube-annex/annex/generated/informers/externalversions/multicluster/v1alpha1"
)

// callTimeout is how long one request to the host may take.
const callTimeout = 10 * time.Second

// Claim is the claim with one name, on one cluster.
type Claim struct {
	name       string
	clientset  *versioned.Clientset
	claims     multicluster.ClusterClaimInterface
	namespaces corev1.NamespaceInterface
	events     eventsv1.EventsGetter
	instance   string
}

// NewClaim returns the claim with the name, on the cluster that host reaches. It starts nothing.
func NewClaim(host *rest.Config, name string) (*Claim, error) {
	config := rest.CopyConfig(host)
	// Who changes an id is warned, which is meant for people.
	config.WarningHandler = rest.NoWarnings{}
	clientset, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of claims: %w", err)
	}
	core, err := corev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of namespaces: %w", err)
	}
	events, err := eventsv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of events: %w", err)
	}
	instance, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("tell who writes events: %w", err)
	}
	return &Claim{
		name: name, clientset: clientset, claims: clientset.MulticlusterV1alpha1().ClusterClaims(), namespaces: core.Namespaces(),
		events: events, instance: instance,
	}, nil
}

// Follow calls seen with each version of the claim until the context ends, deletions included, and may leave some out. It calls synced
// when nothing that happens from then on is left out for good. It returns when all of its work has ended.
func (c *Claim) Follow(ctx context.Context, seen func(*v1alpha1.ClusterClaim), synced func()) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, c.name).String()
	byName := func(options *metav1.ListOptions) { options.FieldSelector = selector }
	informer := informers.NewFilteredClusterClaimInformer(c.clientset, 0, cache.Indexers{}, byName) //nolint:contextcheck // it is run with the context below
	tell := func(object any) {
		if last, gone := object.(cache.DeletedFinalStateUnknown); gone {
			object = last.Obj
		}
		if claim, ok := object.(*v1alpha1.ClusterClaim); ok {
			seen(claim)
		}
	}
	// Adding a handler fails only with an informer that has stopped.
	_, _ = informer.AddEventHandler(leadership.EventHandler(ctx,
		cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, object any) { tell(object) }, DeleteFunc: tell}))
	var running sync.WaitGroup
	defer running.Wait()
	leadership.Go(ctx, &running, func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			synced()
		}
	})
	informer.RunWithContext(ctx)
}

// Get returns the claim as it is stored now, or nil if there is none.
func (c *Claim) Get(ctx context.Context) (*v1alpha1.ClusterClaim, error) { return c.Other(ctx, c.name) }

// Other returns another claim of the cluster as it is stored now, or nil if there is none.
func (c *Claim) Other(ctx context.Context, name string) (*v1alpha1.ClusterClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	claim, err := c.claims.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("get ClusterClaim %s: %w", name, err)
	}
	return claim, nil
}

// Create makes the claim, with a value and an annotation.
func (c *Claim) Create(ctx context.Context, value string, annotations map[string]string) (*v1alpha1.ClusterClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	claim := &v1alpha1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: c.name, Annotations: annotations},
		Spec:       v1alpha1.ClusterClaimSpec{Value: value},
	}
	return c.claims.Create(ctx, claim, metav1.CreateOptions{})
}

// Update writes the claim, if it is stored as it was read.
func (c *Claim) Update(ctx context.Context, claim *v1alpha1.ClusterClaim) (*v1alpha1.ClusterClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.claims.Update(ctx, claim, metav1.UpdateOptions{})
}

// SetCondition has the claim say so, and tells whether it had said something else.
func (c *Claim) SetCondition(ctx context.Context, claim *v1alpha1.ClusterClaim, condition metav1.Condition) (changed bool, err error) {
	next := claim.DeepCopy()
	condition.ObservedGeneration, next.Status.ObservedGeneration = claim.Generation, claim.Generation
	changed = meta.SetStatusCondition(&next.Status.Conditions, condition)
	if !changed && next.Status.ObservedGeneration == claim.Status.ObservedGeneration {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := c.claims.UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
		return false, fmt.Errorf("update status of ClusterClaim %s: %w", claim.Name, err)
	}
	return changed, nil
}

// ClusterUID returns what tells the cluster from all others, whatever its id: the uid of the namespace kube-system.
func (c *Claim) ClusterUID(ctx context.Context) (types.UID, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	namespace, err := c.namespaces.Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the uid of the namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return namespace.UID, nil
}
