// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterproperties

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
)

var (
	claims     = v1alpha1.SchemeGroupVersion.WithResource("clusterclaims")
	properties = schema.GroupResource{Group: Group, Resource: "clusterproperties"}
)

// Cluster is a cluster that has ClusterClaims, ClusterProperties or both.
type Cluster struct {
	host      string
	objects   dynamic.Interface
	discovery discovery.DiscoveryInterfaceWithContext
}

// NewCluster returns the cluster of the configuration. It does not dial.
func NewCluster(config *rest.Config) (*Cluster, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the cluster: %w", err)
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the cluster: %w", err)
	}
	return &Cluster{host: config.Host, objects: objects, discovery: served}, nil
}

// kindInCluster is one of the two kinds, as the cluster serves it.
type kindInCluster struct {
	client dynamic.ResourceInterface
	kind   schema.GroupVersionKind
	// called is what people call an object of it, before its name.
	called string
	claims bool
}

func (c *Cluster) claims() *kindInCluster {
	return &kindInCluster{client: c.objects.Resource(claims), kind: claim.WithVersion(claims.Version), called: "clusterclaim." + claims.Group, claims: true}
}

// properties finds out in which version the cluster serves ClusterProperties.
func (c *Cluster) properties(ctx context.Context) (*kindInCluster, error) {
	groups, err := c.discovery.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the cluster what it serves: %w", c.explain(err))
	}
	for _, group := range groups.Groups {
		if group.Name != Group {
			continue
		}
		for _, version := range append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...) {
			list, err := c.discovery.ServerResourcesForGroupVersionWithContext(ctx, version.GroupVersion)
			if err != nil {
				return nil, fmt.Errorf("ask the cluster for the resources of %s: %w", version.GroupVersion, c.explain(err))
			}
			for _, resource := range list.APIResources {
				if resource.Name == properties.Resource {
					return &kindInCluster{
						client: c.objects.Resource(properties.WithVersion(version.Version)), kind: property.WithVersion(version.Version), called: "clusterproperty." + Group,
					}, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("the cluster at %s serves no %s; install their CustomResourceDefinition, or use files: -o yaml for export, -f for import", c.host, properties)
}

// ListProperties returns all ClusterProperties.
func (c *Cluster) ListProperties(ctx context.Context) ([]unstructured.Unstructured, error) {
	kind, err := c.properties(ctx)
	if err != nil {
		return nil, err
	}
	return c.list(ctx, kind)
}

// ListClaims returns all ClusterClaims, as they were at one moment.
func (c *Cluster) ListClaims(ctx context.Context) ([]unstructured.Unstructured, error) {
	return c.list(ctx, c.claims())
}

func (c *Cluster) list(ctx context.Context, kind *kindInCluster) ([]unstructured.Unstructured, error) {
	list, err := kind.client.List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the cluster at %s serves no %s; register Annex with it by `annex register`, or set --kubeconfig to another", c.host, claims.GroupResource())
	case err != nil:
		return nil, fmt.Errorf("list objects of the kind %s: %w", kind.kind.Kind, c.explain(err))
	}
	return list.Items, nil
}

// explain says what to do about a cluster that does not answer.
func (c *Cluster) explain(err error) error {
	var dial *url.Error
	var network *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &dial) && errors.As(err, &network):
		return fmt.Errorf("the cluster at %s does not answer: %w; see that it runs, and that --kubeconfig names the right one", c.host, network)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster at %s does not accept the credentials in --kubeconfig: %w", c.host, err)
	}
	return err
}
