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

	"github.com/kube-annex/annex/registry/native/admissionregistration"
	"github.com/kube-annex/annex/registry/native/authentication"
	"github.com/kube-annex/annex/registry/native/authorization"
	"github.com/kube-annex/annex/registry/native/certificates"
	"github.com/kube-annex/annex/registry/native/coordination"
	"github.com/kube-annex/annex/registry/native/core"
	"github.com/kube-annex/annex/registry/native/events"
	"github.com/kube-annex/annex/registry/native/flowcontrol"
	"github.com/kube-annex/annex/registry/native/rbac"
	"github.com/kube-annex/annex/registry/native/storagemigration"
	"github.com/kube-annex/annex/registry/resource"
)

// Dependencies are what kinds ask while they serve. A scheme can be made without.
type Dependencies struct {
	// Tokens judges the tokens of TokenReviews, for Audiences where a review names none.
	Tokens    authenticator.Request
	Audiences authenticator.Audiences
	// ServiceAccounts issues and judges tokens of service accounts.
	ServiceAccounts core.Tokens
	// Access judges access reviews; Rules lists what a user may do.
	Access authorizer.Authorizer
	Rules  authorizer.RuleResolver
	// Mapper knows the resources of all kinds that are served, aggregated ones and those of custom resources too.
	Mapper meta.RESTMapper
	// EventTTL is for how long Events are kept after they were written; 0 means an hour.
	EventTTL time.Duration
}

// group is one group-version and its kinds.
type group struct {
	version schema.GroupVersion
	kinds   []resource.Served
}

// groups are all native kinds.
func groups(d Dependencies) []group {
	kept := core.NewEvents(d.EventTTL)
	return []group{
		{core.GroupVersion, append(core.Kinds(d.ServiceAccounts), kept.Served())},
		{events.GroupVersion, events.Kinds(kept)},
		{authentication.GroupVersion, authentication.Kinds(d.Tokens, d.Audiences)},
		{authorization.GroupVersion, authorization.Kinds(d.Access, d.Rules)},
		{admissionregistration.GroupVersion, admissionregistration.Kinds(d.Access, d.Mapper)},
		{certificates.GroupVersion, certificates.Kinds()},
		{coordination.GroupVersion, coordination.Kinds()},
		{flowcontrol.GroupVersion, flowcontrol.Kinds()},
		{rbac.GroupVersion, rbac.Kinds(d.Access)},
		{storagemigration.GroupVersion, storagemigration.Kinds()},
	}
}

// Kinds are those native kinds that a server has. The zero value has all of them.
type Kinds struct {
	without []schema.GroupResource
}

// Without returns all kinds but the given ones; an empty resource stands for all of its group. The error names one that there is not.
func Without(kinds ...schema.GroupResource) (Kinds, error) {
	for _, unwanted := range kinds {
		if !slices.ContainsFunc(groups(Dependencies{}), func(g group) bool { return g.has(unwanted) }) {
			return Kinds{}, fmt.Errorf("there is no native kind %q in the group %q to do without", unwanted.Resource, unwanted.Group)
		}
	}
	return Kinds{without: kinds}, nil
}

func (g group) has(kind schema.GroupResource) bool {
	return g.version.Group == kind.Group &&
		(kind.Resource == "" || slices.ContainsFunc(g.kinds, func(served resource.Served) bool { return served.Resource == kind.Resource }))
}

// Serve tells whether a kind is among them.
func (k Kinds) Serve(kind schema.GroupResource) bool {
	return slices.ContainsFunc(k.groups(Dependencies{}), func(g group) bool { return g.has(kind) })
}

// groups returns those that are left, without empty ones.
func (k Kinds) groups(d Dependencies) []group {
	var left []group
	for _, g := range groups(d) {
		g.kinds = slices.DeleteFunc(g.kinds, func(served resource.Served) bool {
			return slices.ContainsFunc(k.without, func(unwanted schema.GroupResource) bool {
				return unwanted.Group == g.version.Group && (unwanted.Resource == "" || unwanted.Resource == served.Resource)
			})
		})
		if len(g.kinds) > 0 {
			left = append(left, g)
		}
	}
	return left
}
