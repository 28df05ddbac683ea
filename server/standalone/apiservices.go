// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"github.com/kube-annex/annex/server/extension"
	"github.com/kube-annex/annex/server/install"
)

const (
	// startedAnnotation is set anew at each start. The change makes the host look at the extension apiserver at once,
	// which it may have found away a moment before.
	startedAnnotation = "annex.io/started"

	// discoveryInterval is how often the host is asked whether it serves the extension's kinds.
	discoveryInterval = 20 * time.Millisecond

	// registrationRetry is how soon APIServices are written again that the host did not admit.
	registrationRetry = time.Second
)

// serviceResolver sends the extension apiserver's service to where it listens, and asks about others whoever set that in code.
type serviceResolver struct {
	// extension is the server itself, for the host; nil for others.
	extension *extension.Server
	address   net.Addr
	others    aggregatorapiserver.ServiceResolver
}

// ResolveEndpoint returns where the service is.
func (r serviceResolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	known := install.New()
	if isExtension(known, namespace, name, port) {
		return &url.URL{Scheme: "https", Host: r.address.String()}, nil
	}
	if r.others != nil {
		return r.others.ResolveEndpoint(namespace, name, port)
	}
	return nil, fmt.Errorf("there is no service %s/%s with port %d: this control plane has no Service kind, and knows only %s/%s with port %d",
		namespace, name, port, known.Service.Namespace, known.Service.Name, known.ServicePort)
}

// handler returns the handler of the extension apiserver for its service once it is ready: it needs no connection.
func (r serviceResolver) handler(namespace, name string, port int32) http.Handler {
	if r.extension == nil || !isExtension(install.New(), namespace, name, port) {
		return nil
	}
	return r.extension.Handler()
}

func isExtension(known install.Registration, namespace, name string, port int32) bool {
	return namespace == known.Service.Namespace && name == known.Service.Name && port == known.ServicePort
}

// register has the host serve the extension. Where a webhook or policy refuses that, it goes on trying: the host is needed to change them.
func (s *Server) register(ctx context.Context, caBundle func() []byte) error {
	for said := false; ; {
		err := register(ctx, s.AdminConfig(), caBundle())
		if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
			return err
		}
		if !said {
			s.say("apiservices: %v; trying again until it is admitted, with KUBECONFIG=%s you can see to that", err, s.Kubeconfig())
			said = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(registrationRetry):
		}
	}
}

// register creates or updates the APIServices on the host. They are all of a registration that the host has kinds for.
func register(ctx context.Context, host *rest.Config, caBundle []byte) error {
	client, err := v1.NewForConfig(host)
	if err != nil {
		return fmt.Errorf("make a client for APIServices: %w", err)
	}
	started := time.Now().UTC().Format(time.RFC3339Nano)
	all := install.New()
	all.CABundle = caBundle
	for _, service := range all.APIServices() {
		metav1.SetMetaDataAnnotation(&service.ObjectMeta, startedAnnotation, started)
		if err := registerOne(ctx, client.APIServices(), service); err != nil {
			return fmt.Errorf("register APIService %s: %w", service.Name, err)
		}
	}
	return nil
}

func registerOne(ctx context.Context, client v1.APIServiceInterface, service *apiregistrationv1.APIService) error {
	_, err := client.Create(ctx, service, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		existing, err := client.Get(ctx, service.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		existing.Spec = service.Spec
		if existing.Labels == nil {
			existing.Labels = map[string]string{}
		}
		maps.Copy(existing.Labels, service.Labels)
		metav1.SetMetaDataAnnotation(&existing.ObjectMeta, startedAnnotation, service.Annotations[startedAnnotation])
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
		service, err := services.Get(ctx, extension.APIServiceName(version), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := available(service); err != nil {
			return err
		}
	}
	_, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // what others serve is not our trouble
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
		// What passes requests on sees an APIService change a little later than those who read it.
		if _, err := client.ServerResourcesForGroupVersionWithContext(ctx, version.String()); err != nil {
			return fmt.Errorf("%s is not passed on yet: %w", version, err)
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
