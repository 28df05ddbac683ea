// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/kube-annex/annex/registry/native/authentication"
	"github.com/kube-annex/annex/registry/native/authorization"
	"github.com/kube-annex/annex/registry/native/coordination"
	"github.com/kube-annex/annex/registry/native/core"
	"github.com/kube-annex/annex/registry/native/flowcontrol"
	"github.com/kube-annex/annex/registry/resource"
)

// Reviewers are what the review kinds ask.
type Reviewers struct {
	// Tokens judges the tokens of TokenReviews, for Audiences where a review names none.
	Tokens    authenticator.Request
	Audiences authenticator.Audiences
	// Access judges access reviews; Rules lists what a user may do, and may be nil.
	Access authorizer.Authorizer
	Rules  authorizer.RuleResolver
}

// Install builds the storage of all native kinds and serves them. The scheme is one of NewScheme.
func Install(server *genericapiserver.GenericAPIServer, scheme *runtime.Scheme, codecs serializer.CodecFactory, getter generic.RESTOptionsGetter, reviewers Reviewers) error {
	installers := []struct {
		version schema.GroupVersion
		install func(*resource.Group) error
	}{
		{core.GroupVersion, core.Install},
		{authentication.GroupVersion, func(group *resource.Group) error {
			authentication.Install(group, reviewers.Tokens, reviewers.Audiences)
			return nil
		}},
		{authorization.GroupVersion, func(group *resource.Group) error {
			authorization.Install(group, reviewers.Access, reviewers.Rules)
			return nil
		}},
		{coordination.GroupVersion, coordination.Install},
		{flowcontrol.GroupVersion, flowcontrol.Install},
	}
	named := make([]*genericapiserver.APIGroupInfo, 0, len(installers))
	for _, next := range installers {
		group := resource.NewGroup(scheme, codecs, getter, next.version)
		// The server destroys the storages of installed groups, so those of a half-built one are handed to it as well.
		server.RegisterDestroyFunc(group.Destroy)
		if err := next.install(group); err != nil {
			return fmt.Errorf("build %s: %w", next.version, err)
		}
		if next.version.Group != "" {
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
