// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/kube-annex/annex/registry/resource"
)

// Install builds the storage of the kinds and serves them. The scheme is one of NewScheme.
func (k Kinds) Install(server *genericapiserver.GenericAPIServer, scheme *runtime.Scheme, codecs serializer.CodecFactory, getter generic.RESTOptionsGetter, d Dependencies) error {
	var named []*genericapiserver.APIGroupInfo
	for _, next := range k.groups(d) {
		group := resource.NewGroup(scheme, codecs, getter, next.Version)
		// The server destroys the storages of installed groups, so those of a half-built one are handed to it as well.
		server.RegisterDestroyFunc(group.Destroy)
		if err := resource.InstallAll(group, next.Kinds); err != nil {
			return err
		}
		if next.Version.Group != "" {
			named = append(named, group.APIGroupInfo())
			continue
		}
		if err := server.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, group.APIGroupInfo()); err != nil {
			return fmt.Errorf("serve the legacy group: %w", err)
		}
	}
	if err := server.InstallAPIGroups(named...); err != nil {
		return fmt.Errorf("serve the API groups: %w", err)
	}
	return nil
}
