// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"

	featuresinstall "github.com/kube-annex/annex/apis/features/install"
	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
	multiclusterinstall "github.com/kube-annex/annex/apis/multicluster/install"
	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	nodeinstall "github.com/kube-annex/annex/apis/node/install"
	nodev1alpha1 "github.com/kube-annex/annex/apis/node/v1alpha1"
	featuresregistry "github.com/kube-annex/annex/registry/features"
	multiclusterregistry "github.com/kube-annex/annex/registry/multicluster"
	noderegistry "github.com/kube-annex/annex/registry/node"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/server/featuregating"
	"github.com/kube-annex/annex/server/internal/genericserver"
)

// served lists the group-versions of the server and the functions that install their kinds.
var served = []struct {
	version schema.GroupVersion
	install func(deciders, *resource.Group) error
}{
	{featuresv1alpha1.SchemeGroupVersion, func(d deciders, group *resource.Group) error { return d.permits.InstallWith(group, d.reporters) }},
	{multiclusterv1alpha1.SchemeGroupVersion, func(d deciders, group *resource.Group) error {
		return multiclusterregistry.InstallFor(d.joining)(group)
	}},
	{nodev1alpha1.SchemeGroupVersion, func(_ deciders, group *resource.Group) error { return noderegistry.Install(group) }},
}

// deciders are consulted by kinds before a write.
type deciders struct {
	// permits has the state of the features.
	permits *featuresregistry.Permits
	// joining decides whether the cluster may join a set; it may be nil.
	joining multiclusterregistry.Joining
	// reporters renews the Leases of components that report features.
	reporters featuresregistry.Reporters
	// admit is the admission chain, for endpoints that write objects of other kinds.
	admit admission.Interface
}

// GroupVersions returns what the server serves, in the order in which it is installed.
func GroupVersions() []schema.GroupVersion {
	versions := make([]schema.GroupVersion, 0, len(served))
	for _, group := range served {
		versions = append(versions, group.version)
	}
	return versions
}

// APIServiceName returns the name that the APIService of a group-version has to have.
func APIServiceName(version schema.GroupVersion) string { return version.Version + "." + version.Group }

// APIServiceNames returns the names of the APIServices of all that the server serves.
func APIServiceNames() []string {
	names := make([]string, 0, len(served))
	for _, group := range served {
		names = append(names, APIServiceName(group.version))
	}
	return names
}

// newScheme returns a scheme with all kinds of the server.
func newScheme() *runtime.Scheme {
	return resource.NewScheme(featuresinstall.Install, multiclusterinstall.Install, nodeinstall.Install)
}

// resources maps each kind to its resource.
type resources = map[schema.GroupVersionKind]schema.GroupVersionResource

// build builds the server with all API groups, and the engines of its features. It starts nothing.
func (c *config) build() (*genericapiserver.GenericAPIServer, *featuregating.Engines, error) {
	server, err := c.generic.New(Name, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, nil, fmt.Errorf("build %s: %w", Name, err)
	}
	server.ShutdownTimeout = genericserver.DrainTimeout
	engines, err := c.install(server)
	if err != nil {
		server.Destroy()
		return nil, nil, err
	}
	return server, engines, nil
}

func (c *config) install(server *genericapiserver.GenericAPIServer) (*featuregating.Engines, error) {
	served, err := c.installGroups(server, deciders{
		permits: c.gating.Permits, joining: c.joining, reporters: featuregating.NewReporters(c.host.CoordinationV1()), admit: c.generic.AdmissionControl,
	})
	if err != nil {
		return nil, err
	}
	if err := c.gating.Publisher.Install(server); err != nil {
		return nil, err
	}
	return featuregating.NewEngines(c.options.Lifecycle, featuregating.Config{
		Gates: c.reporter, Gated: gated(), Resources: served, Instance: c.instance, Loopback: server.LoopbackClientConfig, Host: c.host,
	})
}

// installGroups builds the storage of all kinds and serves them.
func (c *config) installGroups(server *genericapiserver.GenericAPIServer, d deciders) (resources, error) {
	resourceOf := resources{}
	infos := make([]*genericapiserver.APIGroupInfo, 0, len(served))
	for _, next := range served {
		group := resource.NewGroup(c.scheme, c.codecs, c.generic.RESTOptionsGetter, next.version).Gate(d.permits).Admit(d.admit)
		// The server destroys storages of installed groups; this covers groups that are not installed because of an error.
		server.RegisterDestroyFunc(group.Destroy)
		if err := next.install(d, group); err != nil {
			return nil, fmt.Errorf("build %s: %w", next.version, err)
		}
		info := group.APIGroupInfo()
		infos = append(infos, info)
		for path, storage := range info.VersionedResourcesStorageMap[next.version.Version] {
			kinds, _, err := c.scheme.ObjectKinds(storage.New())
			if err == nil && !strings.Contains(path, "/") {
				resourceOf[next.version.WithKind(kinds[0].Kind)] = next.version.WithResource(path)
			}
		}
	}
	if err := server.InstallAPIGroups(infos...); err != nil {
		return nil, fmt.Errorf("serve the API groups: %w", err)
	}
	return resourceOf, nil
}
