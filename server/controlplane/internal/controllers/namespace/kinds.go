// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
)

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// fresh is how old an answer of discovery may be.
const fresh = time.Second

// kind is one that namespaces may have objects of.
type kind struct {
	schema.GroupVersionResource
	// collection reports whether all objects can be deleted in one request.
	collection bool
}

// answer is what discovery said.
type answer struct {
	asked time.Time
	kinds []kind
	// failure names the group-versions whose servers did not answer, and definitions that are not served, and unparsable those that are no group-versions.
	failure, unparsable error
}

// kinds asks which kinds there are. Deletions that go on side by side share an answer.
type kinds struct {
	client  discovery.DiscoveryInterfaceWithContext
	objects metadata.Interface
	// last has the latest answer, and is empty while somebody asks.
	last chan answer
}

func newKinds(client *discovery.DiscoveryClient, objects metadata.Interface) *kinds {
	// The aggregated documents are up to a minute old where another server's kinds are concerned, and do not fail with the server.
	k := &kinds{client: client.WithLegacyWithContext(context.Background()), objects: objects, last: make(chan answer, 1)}
	k.last <- answer{}
	return k
}

// since returns an answer that was asked for after the given time, and is not old. The error is the context's.
func (k *kinds) since(ctx context.Context, notBefore time.Time) (answer, error) {
	var last answer
	select {
	case last = <-k.last:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	if last.asked.IsZero() || last.asked.Before(notBefore) || time.Since(last.asked) > fresh {
		last = k.ask(ctx)
	}
	k.last <- last
	return last, ctx.Err()
}

// forget has the next one ask who does not ask already: the answer is known to be out of date.
func (k *kinds) forget(outdated answer) {
	select {
	case last := <-k.last:
		if last.asked.Equal(outdated.asked) {
			last = answer{}
		}
		k.last <- last
	default:
	}
}

func (k *kinds) ask(ctx context.Context) answer {
	out := answer{asked: time.Now()}
	groups, lists, failure := k.client.ServerGroupsAndResourcesWithContext(ctx)
	byVersion := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	servers, errServers := k.servers(ctx)
	var unparsable []error
	listed := sets.New[schema.GroupResource]()
	visited := sets.New[servedResource]()
	for _, group := range groups {
		for _, name := range versions(group) {
			version, err := schema.ParseGroupVersion(name)
			if err != nil {
				unparsable = append(unparsable, err)
				continue
			}
			if byVersion[name] == nil {
				continue
			}
			for _, resource := range byVersion[name].APIResources {
				gvr := version.WithResource(resource.Name)
				listed.Insert(gvr.GroupResource())
				served := servedResource{gvr.GroupResource(), servers[name]}
				if !resource.Namespaced || strings.Contains(resource.Name, "/") || visited.Has(served) {
					continue // where it was visited, the objects are those of another version
				}
				visited.Insert(served)
				collection := slices.Contains(resource.Verbs, "deletecollection")
				if slices.Contains(resource.Verbs, "list") && (collection || slices.Contains(resource.Verbs, "delete")) {
					out.kinds = append(out.kinds, kind{gvr, collection})
				}
			}
		}
	}
	out.unparsable = errors.Join(unparsable...)
	out.failure = errors.Join(failure, errServers, k.unlisted(ctx, listed))
	return out
}

// servedResource is a resource of one server. The versions in which the server has it have the same objects.
type servedResource struct {
	schema.GroupResource
	server string
}

// servers returns the extension servers behind group-versions. The rest is served here.
func (k *kinds) servers(ctx context.Context) (map[string]string, error) {
	content, err := k.client.RESTClient().Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").Param("resourceVersion", "0").
		SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil // this server has no aggregator
	}
	list := &apiregistrationv1.APIServiceList{}
	if err == nil {
		err = json.Unmarshal(content, list)
	}
	if err != nil {
		return nil, fmt.Errorf("list APIServices: %w", err)
	}
	found := map[string]string{}
	for _, item := range list.Items {
		if service := item.Spec.Service; service != nil {
			version := schema.GroupVersion{Group: item.Spec.Group, Version: item.Spec.Version}
			found[version.String()] = fmt.Sprintf("%s/%s:%d", service.Namespace, service.Name, ptr.Deref(service.Port, 443))
		}
	}
	return found, nil
}

// versions returns the group-versions of a group, the preferred one first.
func versions(group *metav1.APIGroup) []string {
	all := []string{group.PreferredVersion.GroupVersion}
	for _, version := range group.Versions {
		if version.GroupVersion != group.PreferredVersion.GroupVersion {
			all = append(all, version.GroupVersion)
		}
	}
	return all
}

// unlisted returns an error for kinds that have a definition, and had objects perhaps, but are not listed: no version is served, or not yet.
func (k *kinds) unlisted(ctx context.Context, listed sets.Set[schema.GroupResource]) error {
	all, err := k.objects.Resource(definitions).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		return nil // this server has no custom resources
	}
	if err != nil {
		return fmt.Errorf("list definitions: %w", err)
	}
	var errs []error
	for _, found := range all.Items {
		if listed.Has(schema.ParseGroupResource(found.Name)) {
			continue
		}
		options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, found.Name).String()}
		content, err := k.client.RESTClient().Get().AbsPath("/apis", definitions.Group, definitions.Version, definitions.Resource).
			VersionedParams(&options, metav1.ParameterCodec).SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
		definition := &apiextensionsv1.CustomResourceDefinitionList{}
		if err == nil {
			err = json.Unmarshal(content, definition)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read the definition %s: %w", found.Name, err))
		} else if slices.ContainsFunc(definition.Items, mayHaveObjects) {
			errs = append(errs, fmt.Errorf("%s are defined but not served; serve a version, or delete the definition", found.Name))
		}
	}
	return errors.Join(errs...)
}

// mayHaveObjects reports whether objects of a definition may have been created in namespaces.
func mayHaveObjects(definition apiextensionsv1.CustomResourceDefinition) bool {
	return definition.Spec.Scope == apiextensionsv1.NamespaceScoped && apihelpers.IsCRDConditionTrue(&definition, apiextensionsv1.Established)
}
