// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"github.com/kube-annex/annex/server/extension"
)

const (
	serviceNamespace = "annex-system"
	serviceName      = "annex-apiserver"
	servicePort      = 443

	// startedAnnotation is set anew at each start. The change makes the host look at the extension apiserver at once,
	// which it may have found away a moment before.
	startedAnnotation = "annex.io/started"

	// discoveryInterval is how often the host is asked whether it serves the extension's kinds.
	discoveryInterval = 20 * time.Millisecond
)

// serviceResolver sends the extension apiserver's service to where it listens.
type serviceResolver struct {
	extension net.Addr
}

// ResolveEndpoint returns where the service is.
func (r serviceResolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if namespace != serviceNamespace || name != serviceName || port != servicePort {
		return nil, fmt.Errorf("there is no service %s/%s with port %d: this control plane has no Service kind, and knows only %s/%s with port %d",
			namespace, name, port, serviceNamespace, serviceName, servicePort)
	}
	return &url.URL{Scheme: "https", Host: r.extension.String()}, nil
}

// priorities order groups in discovery: the group's own, and the version's within it. node.k8s.io has to stay below the
// built-in v1, or RuntimeClass would lose its preferred version on other hosts.
func priorities(version schema.GroupVersion) (group, inGroup int32) {
	if version.Group == "node.k8s.io" {
		return 16300, 1
	}
	return 900, 15
}

// register creates or updates the APIServices on the host.
func register(ctx context.Context, host *rest.Config, caBundle []byte) error {
	client, err := v1.NewForConfig(host)
	if err != nil {
		return fmt.Errorf("make a client for APIServices: %w", err)
	}
	started := time.Now().UTC().Format(time.RFC3339Nano)
	for _, version := range extension.GroupVersions() {
		if err := registerOne(ctx, client.APIServices(), version, caBundle, started); err != nil {
			return fmt.Errorf("register APIService of %s: %w", version, err)
		}
	}
	return nil
}

func registerOne(ctx context.Context, client v1.APIServiceInterface, version schema.GroupVersion, caBundle []byte, started string) error {
	group, inGroup := priorities(version)
	port := int32(servicePort)
	spec := apiregistrationv1.APIServiceSpec{
		Group:                version.Group,
		Version:              version.Version,
		Service:              &apiregistrationv1.ServiceReference{Namespace: serviceNamespace, Name: serviceName, Port: &port},
		CABundle:             caBundle,
		GroupPriorityMinimum: group,
		VersionPriority:      inGroup,
	}
	name := version.Version + "." + version.Group
	_, err := client.Create(ctx, &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{startedAnnotation: started}},
		Spec:       spec,
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		existing, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		existing.Spec = spec
		metav1.SetMetaDataAnnotation(&existing.ObjectMeta, startedAnnotation, started)
		_, err = client.Update(ctx, existing, metav1.UpdateOptions{})
		return err
	})
}

// waitServed returns when the host serves all the extension's kinds, in discovery and through its proxy.
func waitServed(ctx context.Context, host *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(host)
	if err != nil {
		return fmt.Errorf("make a client for discovery: %w", err)
	}
	services, err := v1.NewForConfig(host)
	if err != nil {
		return fmt.Errorf("make a client for APIServices: %w", err)
	}
	last := fmt.Errorf("nothing was seen")
	err = wait.PollUntilContextCancel(ctx, discoveryInterval, true, func(ctx context.Context) (bool, error) {
		last = served(ctx, client, services.APIServices())
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the control plane serves the extension APIs: %w; last seen: %w", err, last)
	}
	return nil
}

func served(ctx context.Context, client *discovery.DiscoveryClient, services v1.APIServiceInterface) error {
	for _, version := range extension.GroupVersions() {
		service, err := services.Get(ctx, version.Version+"."+version.Group, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := available(service); err != nil {
			return err
		}
	}
	_, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
	if err != nil {
		return err
	}
	found := sets.New[string]()
	for _, list := range lists {
		if len(list.APIResources) > 0 {
			found.Insert(list.GroupVersion)
		}
	}
	for _, version := range extension.GroupVersions() {
		if !found.Has(version.String()) {
			return fmt.Errorf("%s is not in the host's discovery", version)
		}
	}
	return nil
}

func available(service *apiregistrationv1.APIService) error {
	for _, condition := range service.Status.Conditions {
		if condition.Type == apiregistrationv1.Available {
			if condition.Status == apiregistrationv1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("APIService %s is not available: %s: %s", service.Name, condition.Reason, condition.Message)
		}
	}
	return fmt.Errorf("APIService %s has not been looked at", service.Name)
}
