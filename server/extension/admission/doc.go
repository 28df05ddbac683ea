// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission judges requests to Annex's own kinds by more than the object: by who asks, and by what the server allows.
//
//   - ReservedClaimNames: names of the Kubernetes project need the verb reserve on clusterclaims.
//   - ReservationOwner: a ClusterIDReservation is changed and deleted by its owner, or with the verb reserve on clusteridreservations.
//   - DynamicFeatures: spec.desired of a Feature is set only where the server allows it.
//   - FeatureDeletion: a Feature that a live server announces is deleted only when it is Off and clean.
//
// All are validating plugins, so they see each object of a delete-collection, objects made by apply, and generated names.
//
// This package is not a stable API.
package admission

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	chain "github.com/kube-annex/annex/server/internal/admission"
)

// Plugins are in the order in which they run.
func Plugins() []chain.Plugin {
	return []chain.Plugin{
		{Name: ReservedClaimNamesName, New: func(io.Reader) (admission.Interface, error) { return NewReservedClaimNames(), nil }},
		{Name: ReservationOwnerName, New: func(io.Reader) (admission.Interface, error) { return NewReservationOwner(), nil }},
		{Name: DynamicFeaturesName, New: func(io.Reader) (admission.Interface, error) { return NewDynamicFeatures(), nil }},
		{Name: FeatureDeletionName, New: func(io.Reader) (admission.Interface, error) { return NewFeatureDeletion(), nil }},
	}
}

// asksAuthorizer is a plugin that is given the server's authorizer.
type asksAuthorizer struct {
	authorizer authorizer.Authorizer
}

// SetAuthorizer implements initializer.WantsAuthorizer.
func (a *asksAuthorizer) SetAuthorizer(authorizer authorizer.Authorizer) { a.authorizer = authorizer }

// ValidateInitialization implements admission.InitializationValidator.
func (a *asksAuthorizer) ValidateInitialization() error {
	if a.authorizer == nil {
		return errors.New("an admission plugin that asks for the verb reserve got no authorizer")
	}
	return nil
}

// mayReserve asks whether the user of a request holds the verb reserve on its object.
func (a *asksAuthorizer) mayReserve(ctx context.Context, request admission.Attributes, name string) (bool, error) {
	decision, _, err := a.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User:            request.GetUserInfo(),
		Verb:            "reserve",
		APIGroup:        request.GetResource().Group,
		APIVersion:      request.GetResource().Version,
		Resource:        request.GetResource().Resource,
		Name:            name,
		ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether %q may reserve %s: %w", request.GetUserInfo().GetName(), name, err)
	}
	return false, nil
}

// concerns tells whether a request is about a resource itself, not a subresource of it.
func concerns(request admission.Attributes, resource schema.GroupResource) bool {
	return request.GetSubresource() == "" && request.GetResource().GroupResource() == resource
}

// nameIn returns the name of the object at hand. The request of a delete-collection has none, and comes once for the whole
// and once for each object.
func nameIn(request admission.Attributes) string {
	if request.GetName() != "" {
		return request.GetName()
	}
	if obj, err := meta.Accessor(request.GetOldObject()); err == nil {
		return obj.GetName()
	}
	return ""
}
