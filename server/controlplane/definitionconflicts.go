// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/rest"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
)

// definitionConflicts prevents that a definition is established whose resource is built in or served by an extension server in any version of
// the same group: clients would find only one of the two. It runs before the other admission plugins.
type definitionConflicts struct {
	admission.Interface
	client    rest.Interface
	isBuiltIn func(schema.GroupResource) bool
	// services is nil without an aggregator.
	services listers.APIServiceLister
}

// Handles implements admission.Interface.
func (d definitionConflicts) Handles(operation admission.Operation) bool {
	return operation == admission.Update || d.Interface.Handles(operation)
}

// Admit implements admission.MutationInterface.
func (d definitionConflicts) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetOperation() == admission.Update && a.GetSubresource() == "status" && a.GetResource().GroupResource() == apiextensions.Resource("customresourcedefinitions") {
		if err := d.refuse(ctx, a); err != nil {
			return err
		}
	}
	if next, ok := d.Interface.(admission.MutationInterface); ok && next.Handles(a.GetOperation()) {
		return next.Admit(ctx, a, o)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (d definitionConflicts) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if next, ok := d.Interface.(admission.ValidationInterface); ok && next.Handles(a.GetOperation()) {
		return next.Validate(ctx, a, o)
	}
	return nil
}

// refuse removes the acceptance of the names of a definition. It keeps the old accepted names, so that each resync evaluates them again.
func (d definitionConflicts) refuse(ctx context.Context, a admission.Attributes) error {
	definition, ok := a.GetObject().(*apiextensions.CustomResourceDefinition)
	old, okOld := a.GetOldObject().(*apiextensions.CustomResourceDefinition)
	if !ok || !okOld || apiextensions.IsCRDConditionTrue(old, apiextensions.Established) ||
		!apiextensions.IsCRDConditionTrue(definition, apiextensions.NamesAccepted) {
		return nil
	}
	resource := schema.GroupResource{Group: definition.Spec.Group, Resource: definition.Spec.Names.Plural}
	by, err := d.servedBy(ctx, resource)
	if err != nil {
		return apierrors.NewServiceUnavailable(err.Error())
	}
	if by == "" {
		return nil
	}
	definition.Status.AcceptedNames = old.Status.AcceptedNames
	message := fmt.Sprintf("%s are served by %s", resource, by)
	for _, refused := range []apiextensions.CustomResourceDefinitionCondition{
		{Type: apiextensions.NamesAccepted, Status: apiextensions.ConditionFalse, Reason: "ResourceConflict", Message: message},
		{Type: apiextensions.Established, Status: apiextensions.ConditionFalse, Reason: "NotAccepted", Message: message},
	} {
		if before := apiextensions.FindCRDCondition(old, refused.Type); before != nil {
			// With the time of the last transition, so that the same outcome is no change.
			*apiextensions.FindCRDCondition(definition, refused.Type) = *before
		}
		apiextensions.SetCRDCondition(definition, refused)
	}
	return nil
}

// servedBy returns the server of a resource that has no definition, in any version of its group; empty if there is none.
func (d definitionConflicts) servedBy(ctx context.Context, resource schema.GroupResource) (string, error) {
	if d.isBuiltIn(resource) {
		return "a built-in kind", nil
	}
	if d.services == nil {
		return "", nil
	}
	services, err := d.services.List(labels.Everything())
	if err != nil {
		return "", err
	}
	for _, service := range services {
		if service.Spec.Group != resource.Group || service.Spec.Service == nil {
			continue
		}
		content, err := d.client.Get().AbsPath("/apis", service.Spec.Group, service.Spec.Version).
			SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
		list := &metav1.APIResourceList{}
		if err == nil {
			err = json.Unmarshal(content, list)
		}
		if err != nil {
			return "", fmt.Errorf("read the resources of the APIService %s: %w", service.Name, err)
		}
		if slices.ContainsFunc(list.APIResources, func(served metav1.APIResource) bool { return served.Name == resource.Resource }) {
			return "the extension server of the APIService " + service.Name, nil
		}
	}
	return "", nil
}
