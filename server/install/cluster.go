// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Cluster is a cluster in which the extension apiserver is registered.
type Cluster struct {
	host      string
	requests  rest.Interface
	objects   dynamic.Interface
	reviews   kubernetes.Interface
	discovery discovery.DiscoveryInterface
	contents  metadata.Interface
}

// NewCluster returns the cluster of the configuration. It does not dial.
func NewCluster(config *rest.Config) (*Cluster, error) {
	// A registration is some hundred small requests at once, which the client's own limit would stretch to ten seconds.
	config = rest.CopyConfig(config)
	config.QPS = -1
	// Applying needs to know whether the cluster has created the object, which the dynamic client does not say.
	unversioned := dynamic.ConfigFor(config)
	unversioned.GroupVersion = &schema.GroupVersion{}
	requests, err := rest.UnversionedRESTClientFor(unversioned)
	if err != nil {
		return nil, fmt.Errorf("make a client of the cluster: %w", err)
	}
	reviews, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the cluster: %w", err)
	}
	contents, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the cluster: %w", err)
	}
	return &Cluster{host: config.Host, requests: requests, objects: dynamic.New(requests), reviews: reviews, discovery: reviews.Discovery(), contents: contents}, nil
}

// item is one object with what is known about it.
type item struct {
	object   Object
	resource schema.GroupVersionResource
	existing *unstructured.Unstructured // nil where there is none
}

// String names the object as kubectl would.
func (i *item) String() string {
	name := strings.ToLower(i.object.GetObjectKind().GroupVersionKind().Kind)
	if group := i.resource.Group; group != "" {
		name += "." + group
	}
	name += "/" + i.object.GetName()
	if namespace := i.object.GetNamespace(); namespace != "" {
		name += " in namespace " + namespace
	}
	return name
}

// own tells whether the object in the cluster is of a registration.
func (i *item) own() bool {
	return i.existing != nil && i.existing.GetLabels()[ManagedByLabel] == ManagedBy
}

// leaving tells whether the object is being deleted.
func (i *item) leaving() bool { return i.existing != nil && i.existing.GetDeletionTimestamp() != nil }

// resourceOf returns the resource of a kind in Objects.
func resourceOf(object Object) (schema.GroupVersionResource, error) {
	kind := object.GetObjectKind().GroupVersionKind()
	resources := map[schema.GroupVersionKind]string{
		corev1.SchemeGroupVersion.WithKind("Namespace"):             "namespaces",
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"):        "serviceaccounts",
		corev1.SchemeGroupVersion.WithKind("Secret"):                "secrets",
		corev1.SchemeGroupVersion.WithKind("Service"):               "services",
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole"):           "clusterroles",
		rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"):    "clusterrolebindings",
		rbacv1.SchemeGroupVersion.WithKind("Role"):                  "roles",
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"):           "rolebindings",
		flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"):     "flowschemas",
		apiregistrationv1.SchemeGroupVersion.WithKind("APIService"): "apiservices",
	}
	resource, ok := resources[kind]
	if !ok {
		return schema.GroupVersionResource{}, fmt.Errorf("no resource is known for %s", kind)
	}
	return kind.GroupVersion().WithResource(resource), nil
}

func (c *Cluster) client(i *item) dynamic.ResourceInterface {
	if namespace := i.object.GetNamespace(); namespace != "" {
		return c.objects.Resource(i.resource).Namespace(namespace)
	}
	return c.objects.Resource(i.resource)
}

// path is where the object is served.
func (i *item) path() []string {
	segments := []string{"/api", i.resource.Version}
	if i.resource.Group != "" {
		segments = []string{"/apis", i.resource.Group, i.resource.Version}
	}
	if namespace := i.object.GetNamespace(); namespace != "" {
		segments = append(segments, "namespaces", namespace)
	}
	return append(segments, i.resource.Resource, i.object.GetName())
}

func itemsOf(objects []Object) ([]*item, error) {
	items := make([]*item, 0, len(objects))
	for _, object := range objects {
		resource, err := resourceOf(object)
		if err != nil {
			return nil, err
		}
		items = append(items, &item{object: object, resource: resource})
	}
	return items, nil
}

// served leaves out what the cluster has no kind for: one without priority and fairness works without flow schemas.
func (c *Cluster) served(ctx context.Context, items []*item) (kept, skipped []*item, err error) {
	_, err = c.reviews.Discovery().ServerResourcesForGroupVersionWithContext(ctx, flowcontrolv1.SchemeGroupVersion.String())
	if err == nil {
		return items, nil, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("ask whether the cluster has flow schemas: %w", c.explain(err))
	}
	for _, i := range items {
		if i.resource.Group == flowcontrolv1.GroupName {
			skipped = append(skipped, i)
		} else {
			kept = append(kept, i)
		}
	}
	return kept, skipped, nil
}

// look reads what the cluster has under the names of the objects. Where the user may not even look, the error lists
// the rights that will be needed afterwards, too.
func (c *Cluster) look(ctx context.Context, rights *rights, items []*item, later ...string) error {
	for _, i := range items {
		rights.needOn(ctx, i, "get")
	}
	if rights.missing != nil {
		for _, i := range items {
			rights.needOn(ctx, i, later...)
		}
	}
	if err := rights.verdict(ctx); err != nil {
		return err
	}
	for _, i := range items {
		var err error
		i.existing, err = c.client(i).Get(ctx, i.object.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			i.existing = nil
		case err != nil:
			return fmt.Errorf("read %s: %w", i, c.explain(err))
		}
	}
	return nil
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
	case errors.As(err, &dial):
		return fmt.Errorf("the cluster at %s cannot be asked: %w; see that --kubeconfig names the right one", c.host, dial.Err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster at %s does not accept the credentials in --kubeconfig: %w", c.host, err)
	}
	return err
}

// content returns the object as it is sent: without what only the cluster sets.
func content(object Object) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
	}
	delete(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	if fields["rules"] == nil {
		delete(fields, "rules") // those of an aggregated role are the cluster's to set
	}
	for _, field := range []string{"spec", "data"} {
		if nested, ok := fields[field].(map[string]any); ok && len(nested) == 0 {
			delete(fields, field)
		}
	}
	return &unstructured.Unstructured{Object: fields}, nil
}
