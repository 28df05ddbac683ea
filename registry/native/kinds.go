// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/kube-annex/annex/registry/native/admissionregistration"
	"github.com/kube-annex/annex/registry/native/authentication"
	"github.com/kube-annex/annex/registry/native/coordination"
	"github.com/kube-annex/annex/registry/native/core"
	"github.com/kube-annex/annex/registry/native/internal/authorization"
	"github.com/kube-annex/annex/registry/native/internal/certificates"
	"github.com/kube-annex/annex/registry/native/internal/events"
	"github.com/kube-annex/annex/registry/native/internal/flowcontrol"
	"github.com/kube-annex/annex/registry/native/internal/rbac"
	"github.com/kube-annex/annex/registry/native/internal/storagemigration"
	"github.com/kube-annex/annex/registry/resource"
)

// ServiceAccountTokens connects service accounts with the issuer of their tokens. The zero value serves accounts without tokens.
type ServiceAccountTokens = core.Tokens

// Dependencies are what kinds ask while they serve. A scheme can be made without.
type Dependencies struct {
	// Tokens judges the tokens of TokenReviews, for Audiences where a review names none.
	Tokens    authenticator.Request
	Audiences authenticator.Audiences
	// ServiceAccounts issues and judges tokens of service accounts.
	ServiceAccounts ServiceAccountTokens
	// Access judges access reviews; Rules lists what a user may do.
	Access authorizer.Authorizer
	Rules  authorizer.RuleResolver
	// Mapper knows the resources of all kinds that are served, aggregated ones and those of custom resources too.
	Mapper meta.RESTMapper
	// EventTTL is for how long Events are kept after they were written; 0 means an hour.
	EventTTL time.Duration
}

// Group is one group-version and its kinds.
type Group struct {
	Version schema.GroupVersion
	Kinds   []resource.Served
	// Definitions are those of the kinds in OpenAPI. Those of native kinds are elsewhere.
	Definitions common.GetOpenAPIDefinitions
}

// groups are all native kinds.
func groups(d Dependencies) []Group {
	kept := core.NewEvents(d.EventTTL)
	return []Group{
		{Version: core.GroupVersion, Kinds: append(core.Kinds(d.ServiceAccounts), kept.Served())},
		{Version: events.GroupVersion, Kinds: events.Kinds(kept)},
		{Version: authentication.GroupVersion, Kinds: authentication.Kinds(d.Tokens, d.Audiences)},
		{Version: authorization.GroupVersion, Kinds: authorization.Kinds(d.Access, d.Rules)},
		{Version: admissionregistration.GroupVersion, Kinds: admissionregistration.Kinds(d.Access, d.Mapper)},
		{Version: certificates.GroupVersion, Kinds: certificates.Kinds()},
		{Version: coordination.GroupVersion, Kinds: coordination.Kinds()},
		{Version: flowcontrol.GroupVersion, Kinds: flowcontrol.Kinds()},
		{Version: rbac.GroupVersion, Kinds: rbac.Kinds(d.Access)},
		{Version: storagemigration.GroupVersion, Kinds: storagemigration.Kinds()},
	}
}

// Kinds are those native kinds that a server has. The zero value has all of them.
type Kinds struct {
	without []schema.GroupResource
	more    []Group
}

// WithoutResources returns all kinds but the given ones; an empty resource stands for all of its group. The error names one that there is not.
func WithoutResources(kinds ...schema.GroupResource) (Kinds, error) {
	for _, unwanted := range kinds {
		if !slices.ContainsFunc(groups(Dependencies{}), func(g Group) bool { return g.has(unwanted) }) {
			return Kinds{}, fmt.Errorf("there is no native kind %q in the group %q to do without", unwanted.Resource, unwanted.Group)
		}
	}
	return Kinds{without: kinds}, nil
}

// WithGroups returns the kinds and those of further groups. The error names one that is there already.
func (k Kinds) WithGroups(more ...Group) (Kinds, error) {
	all := Kinds{without: k.without, more: slices.Clone(k.more)}
	for _, added := range more {
		if slices.ContainsFunc(append(groups(Dependencies{}), all.more...), func(g Group) bool { return g.Version.Group == added.Version.Group }) {
			return Kinds{}, fmt.Errorf("the group %q is there already; give kinds of your own another one", added.Version.Group)
		}
		all.more = append(all.more, added)
	}
	return all, nil
}

// AdditionalGroups returns the groups added by WithGroups.
func (k Kinds) AdditionalGroups() []Group { return k.more }

// StoredAsJSON returns the resources that are not stored as protobuf, since their types are not made for it.
func (k Kinds) StoredAsJSON() []schema.GroupResource {
	var found []schema.GroupResource
	for _, g := range k.more {
		for _, kind := range g.Kinds {
			if _, ok := kind.Types[0].(interface{ Marshal() ([]byte, error) }); !ok {
				found = append(found, g.Version.WithResource(kind.Resource).GroupResource())
			}
		}
	}
	return found
}

func (g Group) has(kind schema.GroupResource) bool {
	return g.Version.Group == kind.Group &&
		(kind.Resource == "" || slices.ContainsFunc(g.Kinds, func(served resource.Served) bool { return served.Resource == kind.Resource }))
}

// Serve tells whether a kind is among them.
func (k Kinds) Serve(kind schema.GroupResource) bool {
	return slices.ContainsFunc(k.groups(Dependencies{}), func(g Group) bool { return g.has(kind) })
}

// groups returns those that are left, without empty ones.
func (k Kinds) groups(d Dependencies) []Group {
	var left []Group
	for _, g := range groups(d) {
		g.Kinds = slices.DeleteFunc(g.Kinds, func(served resource.Served) bool {
			return slices.ContainsFunc(k.without, func(unwanted schema.GroupResource) bool {
				return unwanted.Group == g.Version.Group && (unwanted.Resource == "" || unwanted.Resource == served.Resource)
			})
		})
		if len(g.Kinds) > 0 {
			left = append(left, g)
		}
	}
	return append(left, k.more...)
}
