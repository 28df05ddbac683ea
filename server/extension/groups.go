// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"fmt"

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
	install func(*featuresregistry.Permits, *resource.Group) error
}{
	{featuresv1alpha1.SchemeGroupVersion, (*featuresregistry.Permits).Install},
	{multiclusterv1alpha1.SchemeGroupVersion, asked(multiclusterregistry.Install)},
	{nodev1alpha1.SchemeGroupVersion, asked(noderegistry.Install)},
}

// asked is a group that need not know who decides about what is gated.
func asked(install func(*resource.Group) error) func(*featuresregistry.Permits, *resource.Group) error {
	return func(_ *featuresregistry.Permits, group *resource.Group) error { return install(group) }
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

// installGroups builds the storage of all kinds and serves them.
func installGroups(server *genericapiserver.GenericAPIServer, scheme *runtime.Scheme, codecs serializer.CodecFactory, getter generic.RESTOptionsGetter, permits *featuresregistry.Permits) error {
	infos := make([]*genericapiserver.APIGroupInfo, 0, len(served))
	for _, next := range served {
		group := resource.NewGroup(scheme, codecs, getter, next.version).Gate(permits)
		// The server destroys the storages of installed groups, so those of a half-built one are handed to it as well.
		server.RegisterDestroyFunc(group.Destroy)
		if err := next.install(permits, group); err != nil {
			return fmt.Errorf("build %s: %w", next.version, err)
		}
		infos = append(infos, group.APIGroupInfo())
	}
	if err := server.InstallAPIGroups(infos...); err != nil {
		return fmt.Errorf("serve the API groups: %w", err)
	}
	return nil
}
