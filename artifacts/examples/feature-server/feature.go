// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	basegate "k8s.io/component-base/featuregate"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate/lifecycle"
)

var frobs = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "frobs"}

// feature is what the engine has to know of the feature.
func feature(gates basegate.MutableVersionedFeatureGate, isDynamic bool, crd *crd, frobClient dynamic.NamespaceableResourceInterface) lifecycle.Feature {
	f := lifecycle.Feature{
		Name: string(frobbing), Default: v1alpha1.ValueDisabled, Configured: v1alpha1.ValueDisabled, Stability: v1alpha1.StabilityAlpha, Dynamic: isDynamic,
		Count: func(ctx context.Context) (v1alpha1.DanglingReferences, error) {
			found, err := lifecycle.CountObjects(lifecycle.Kind{Resource: frobs.GroupResource(), Client: frobClient})(ctx)
			if apierrors.IsNotFound(err) {
				return found, nil // Without the CRD there are none.
			}
			return found, err
		},
	}
	if gates.Enabled(frobbing) {
		f.Configured = v1alpha1.ValueEnabled
	}
	if gates.ExplicitlySet(frobbing) {
		f.Source = v1alpha1.SourceCommandLine
	}
	f.On = []lifecycle.Task{{Name: "InstallCRD", Run: crd.install}}
	f.Off = []lifecycle.Task{
		{Name: "CloseCRD", Run: crd.close},
		lifecycle.WaitForRemoval(f.Count, time.Second),
		{Name: "RemoveCRD", DataChanging: true, Run: crd.remove},
	}
	return f
}

// crd has the tasks. Each may be cut off at any point and begun again, and then finds out how far it was.
type crd struct {
	client crdclient.CustomResourceDefinitionInterface
	grace  time.Duration
}

// definition is open for new frobs, or only for those that are there.
func definition(open bool) *apiextensionsv1.CustomResourceDefinition {
	integer := apiextensionsv1.JSONSchemaProps{Type: "integer"}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	root := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec":   object(map[string]apiextensionsv1.JSONSchemaProps{"size": integer}),
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{"frobbed": integer}),
	})
	if !open {
		root.XValidations = apiextensionsv1.ValidationRules{{Rule: "oldSelf.hasValue()", OptionalOldSelf: ptr.To(true), Message: "the feature Frobbing is being turned off; no new frobs can be made"}}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: frobs.GroupResource().String()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: frobs.Group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: frobs.Resource, Singular: "frob", Kind: "Frob", ListKind: "FrobList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: frobs.Version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

var errGoing = errors.New("the CRD is still being deleted")

// install returns when the API serves frobs.
func (c *crd) install(ctx context.Context, progress *lifecycle.Progress) error {
	wanted := definition(true)
	now, err := c.client.Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if now, err = c.client.Get(ctx, wanted.Name, metav1.GetOptions{}); err == nil && now.DeletionTimestamp == nil {
			now.Spec.Versions = wanted.Spec.Versions
			now, err = c.client.Update(ctx, now, metav1.UpdateOptions{})
		}
	}
	for err == nil && !apihelpers.IsCRDConditionTrue(now, apiextensionsv1.Established) {
		progress.Say("waits until the API serves " + wanted.Name)
		if err = progress.Wait(ctx, 100*time.Millisecond); err == nil {
			now, err = c.client.Get(ctx, wanted.Name, metav1.GetOptions{})
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("install the CRD: %w", err)
	case now.DeletionTimestamp != nil:
		return errGoing
	}
	return nil
}

// close has the API refuse new frobs, and returns when no server of it can take one any more.
func (c *crd) close(ctx context.Context, progress *lifecycle.Progress) error {
	wanted := definition(false)
	now, err := c.client.Get(ctx, wanted.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	now.Spec.Versions = wanted.Spec.Versions
	if _, err = c.client.Update(ctx, now, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("close the CRD for new objects: %w", err)
	}
	return progress.Wait(ctx, c.grace)
}

// remove removes the CRD, which has no objects any more and takes none.
func (c *crd) remove(ctx context.Context, progress *lifecycle.Progress) error {
	for {
		now, err := c.client.Get(ctx, definition(false).Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case now.DeletionTimestamp == nil && len(now.Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations) == 0:
			return errors.New("somebody has opened the CRD for new objects; turn the feature on and off again")
		case now.DeletionTimestamp == nil:
			// The process may have been paused; then another replica may have turned the feature round, which opened the CRD.
			if err = progress.Confirm(ctx); err != nil {
				return err
			}
			as := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion}}
			if err = c.client.Delete(ctx, now.Name, as); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete the CRD: %w", err)
			}
		}
		if err = progress.Wait(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
