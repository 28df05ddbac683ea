// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/kube-annex/annex/server/controllermanager"
	"github.com/kube-annex/annex/server/extension"
	"github.com/kube-annex/annex/server/featuregating"
)

// Unregister deletes what Register has made, in the reverse order. What bears one of the names and is someone else's stays,
// and is named in the error. The namespace stays, without an error, while it holds anything that is not of the registration or a
// Lease of its controllers.
func (c *Cluster) Unregister(ctx context.Context, service Registration, dryRun bool, report Report) error {
	service.User = "" // so that the service account is among the objects
	items, err := itemsOf(append(service.Objects(), service.retired()...))
	if err != nil {
		return err
	}
	rights := c.rights(ctx)
	if err := c.look(ctx, rights, items, "delete"); err != nil {
		return err
	}
	for _, i := range items {
		if i.own() && !i.leaving() {
			rights.needOn(ctx, i, "delete")
		}
	}
	if err := rights.verdict(ctx); err != nil {
		return err
	}
	var foreign []string
	for _, i := range slices.Backward(items) {
		switch {
		case i.existing == nil || i.leaving():
			continue
		case i.adopted():
			report(i.String(), Kept, "it was not made by annex register")
			continue
		case !i.own() || i.resource.Resource == "apiservices" && service.foreignAPIService(i) != "":
			foreign = append(foreign, i.String())
			continue
		case i.resource.Resource == "namespaces":
			others, err := c.others(ctx, items, i.object.GetName())
			if err != nil {
				return err
			}
			if others != nil {
				report(i.String(), Kept, "it holds "+strings.Join(others, ", "))
				continue
			}
		}
		if err := c.remove(ctx, i, dryRun); err != nil {
			return fmt.Errorf("delete %s: %w", i, c.explain(err))
		}
		report(i.String(), Deleted, "")
	}
	if foreign != nil {
		return fmt.Errorf("these belong to someone else and were left alone: %s", strings.Join(foreign, "; "))
	}
	return nil
}

// remove deletes the object that was looked at, not one that took its name since.
func (c *Cluster) remove(ctx context.Context, i *item, dryRun bool) error {
	uid := i.existing.GetUID()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	err := c.client(i).Delete(ctx, i.object.GetName(), options)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// maxOthers is how many objects are named when a namespace is kept.
const maxOthers = 5

// others lists what a namespace holds besides the registration and what a cluster puts into each namespace by itself.
func (c *Cluster) others(ctx context.Context, items []*item, namespace string) ([]string, error) {
	expected := map[string]bool{
		"configmaps/kube-root-ca.crt": true,
		"serviceaccounts/default":     true,
	}
	for _, i := range items {
		if i.object.GetNamespace() == namespace {
			expected[i.resource.GroupResource().String()+"/"+i.object.GetName()] = true
		}
	}
	lists, err := c.discovery.ServerPreferredNamespacedResources()
	var found []string
	if failed, ok := discovery.GroupDiscoveryFailedErrorGroups(err); ok {
		for version := range failed {
			if !slices.Contains(extension.GroupVersions(), version) {
				found = append(found, "perhaps objects of "+version.String()+", which does not answer")
			}
		}
	} else if err != nil {
		return nil, fmt.Errorf("ask what namespace %s holds: %w", namespace, c.explain(err))
	}
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "create"}}, lists)
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || slices.Contains(extension.GroupVersions(), version) {
			continue // objects of the APIs themselves are in the extension's own store
		}
		for _, resource := range list.APIResources {
			if incidental(version.Group, resource.Name) {
				continue
			}
			objects, err := c.contents.Resource(version.WithResource(resource.Name)).Namespace(namespace).List(ctx, metav1.ListOptions{})
			switch {
			case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
				continue
			case err != nil:
				return nil, fmt.Errorf("ask which %s namespace %s holds: %w", resource.Name, namespace, c.explain(err))
			}
			for _, object := range objects.Items {
				name := version.WithResource(resource.Name).GroupResource().String() + "/" + object.Name
				// Leases of controllers, and those about features, stay behind; with the namespace they go.
				lease := version.Group == coordinationv1.GroupName && resource.Name == "leases" &&
					(controllermanager.OwnsLease(object.Name) || featuregating.OwnsLease(object.Name))
				if !expected[name] && !lease && len(object.OwnerReferences) == 0 {
					found = append(found, name)
				}
			}
		}
	}
	if len(found) > maxOthers {
		found = append(found[:maxOthers], fmt.Sprintf("%d more", len(found)-maxOthers))
	}
	return found, nil
}

// incidental tells whether objects of a kind come from other objects or tell about them.
func incidental(group, resource string) bool {
	switch resource {
	case "events":
		return group == corev1.GroupName || group == eventsv1.GroupName
	case "endpoints":
		return group == corev1.GroupName
	case "endpointslices":
		return group == "discovery.k8s.io"
	}
	return false
}
