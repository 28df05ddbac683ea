// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
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
)

// served are the group-versions of the server and what installs their kinds.
var served = []struct {
	version schema.GroupVersion
	install func(deciders, *resource.Group) error
}{
	{featuresv1alpha1.SchemeGroupVersion, func(d deciders, group *resource.Group) error { return d.permits.Install(group) }},
	{multiclusterv1alpha1.SchemeGroupVersion, func(d deciders, group *resource.Group) error {
		return multiclusterregistry.InstallFor(d.joining)(group)
	}},
	{nodev1alpha1.SchemeGroupVersion, func(_ deciders, group *resource.Group) error { return noderegistry.Install(group) }},
}

// deciders are asked by kinds before something is written.
type deciders struct {
	// permits tell what features permit.
	permits *featuresregistry.Permits
	// joining tells whether the cluster may join a set; it may be nil.
	joining multiclusterregistry.Joining
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

// resources finds the resource of each kind.
type resources = map[schema.GroupVersionKind]schema.GroupVersionResource

// installGroups builds the storage of all kinds and serves them.
func installGroups(server *genericapiserver.GenericAPIServer, scheme *runtime.Scheme, codecs serializer.CodecFactory, getter generic.RESTOptionsGetter, d deciders) (resources, error) {
	found := resources{}
	infos := make([]*genericapiserver.APIGroupInfo, 0, len(served))
	for _, next := range served {
		group := resource.NewGroup(scheme, codecs, getter, next.version).Gate(d.permits)
		// The server destroys the storages of installed groups, so those of a half-built one are handed to it as well.
		server.RegisterDestroyFunc(group.Destroy)
		if err := next.install(d, group); err != nil {
			return nil, fmt.Errorf("build %s: %w", next.version, err)
		}
		info := group.APIGroupInfo()
		infos = append(infos, info)
		for path, storage := range info.VersionedResourcesStorageMap[next.version.Version] {
			kinds, _, err := scheme.ObjectKinds(storage.New())
			if err == nil && !strings.Contains(path, "/") {
				found[next.version.WithKind(kinds[0].Kind)] = next.version.WithResource(path)
			}
		}
	}
	if err := server.InstallAPIGroups(infos...); err != nil {
		return nil, fmt.Errorf("serve the API groups: %w", err)
	}
	return found, nil
}
