// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/kube-annex/annex/apis/features"
)

// FeatureDeletionName is the plugin's name in --enable-admission-plugins.
const FeatureDeletionName = "FeatureDeletion"

// FeatureDeletion refuses the deletion of a Feature that a live server announces, unless it is Off and nothing stored uses it. The
// server would announce it anew, without the value that users had set, and the record of the remaining clean-up would be lost.
//
// A namespace that is being deleted takes its Features along: a refusal would keep it terminating forever, since servers cannot
// renew their Leases or write conditions there. Nothing is swept: a Feature that is announced anew counts first.
type FeatureDeletion struct {
	*admission.Handler
	namespaces corev1listers.NamespaceLister
}

// NewFeatureDeletion returns the plugin; it needs informers before it is used.
func NewFeatureDeletion() *FeatureDeletion {
	return &FeatureDeletion{Handler: admission.NewHandler(admission.Delete)}
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *FeatureDeletion) SetExternalKubeInformerFactory(factory informers.SharedInformerFactory) {
	p.namespaces = factory.Core().V1().Namespaces().Lister()
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *FeatureDeletion) ValidateInitialization() error {
	if p.namespaces == nil {
		return errors.New("the admission plugin " + FeatureDeletionName + " has no informers")
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *FeatureDeletion) Validate(_ context.Context, request admission.Attributes, _ admission.ObjectInterfaces) error {
	feature, ok := request.GetOldObject().(*features.Feature)
	if !ok || !concerns(request, features.Resource("features")) || mayBeDeleted(&feature.Status) || p.isTerminating(request.GetNamespace()) {
		return nil
	}
	return apierrors.NewForbidden(features.Resource("features"), feature.Name, fmt.Errorf(
		"a live server announces the feature, which is %s; turn it off by spec.desired or --feature-gates and wait until it is Off with no stored objects left that use it, "+
			"or stop the servers that announce it; if they are gone for good and nobody has marked it, set the condition %s in its status to False",
		feature.Status.State, features.FeatureAvailable))
}

// mayBeDeleted reports whether nothing is lost with a Feature: no live server announces it, or it is Off and clean.
func mayBeDeleted(status *features.FeatureStatus) bool {
	clean := status.State == features.StateOff && (status.DanglingReferences == nil || status.DanglingReferences.Count == 0)
	return clean || status.Source == features.SourceObserved || !meta.IsStatusConditionTrue(status.Conditions, features.FeatureAvailable)
}

// isTerminating reports whether a namespace is being deleted. Of one that is not known it is not assumed.
func (p *FeatureDeletion) isTerminating(name string) bool {
	namespace, err := p.namespaces.Get(name)
	return err == nil && namespace.DeletionTimestamp != nil
}
