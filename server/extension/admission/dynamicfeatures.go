// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/kube-annex/annex/apis/features"
)

// DynamicFeaturesName is the plugin's name in --enable-admission-plugins.
const DynamicFeaturesName = "DynamicFeatures"

// DynamicFeatures lets spec.desired of a Feature be set or changed only while status.dynamic is true, which the server
// that owns the feature sets (KEP-3920, stage 3), and never on one that is locked or GA. Clearing it, and writing it as it is, is
// always allowed.
type DynamicFeatures struct {
	*admission.Handler
}

// NewDynamicFeatures returns the plugin.
func NewDynamicFeatures() *DynamicFeatures {
	return &DynamicFeatures{Handler: admission.NewHandler(admission.Create, admission.Update)}
}

// Validate implements admission.ValidationInterface.
func (p *DynamicFeatures) Validate(_ context.Context, request admission.Attributes, _ admission.ObjectInterfaces) error {
	feature, ok := request.GetObject().(*features.Feature)
	if !ok || !concerns(request, features.Resource("features")) || feature.Spec.Desired == "" {
		return nil
	}
	status := &features.FeatureStatus{} // A new Feature has not been announced.
	if old, ok := request.GetOldObject().(*features.Feature); ok {
		if old.Spec.Desired == feature.Spec.Desired {
			return nil
		}
		status = &old.Status
	}
	reason := fixed(status, feature.Name, request.GetNamespace())
	if reason == "" {
		return nil
	}
	return apierrors.NewForbidden(features.Resource("features"), feature.Name, fmt.Errorf("spec.desired cannot be set because %s", reason))
}

// fixed tells why a wish would have no effect, and what to do instead; it is empty if a wish is heard.
func fixed(status *features.FeatureStatus, name, namespace string) string {
	switch {
	case status.Locked:
		return fmt.Sprintf("the feature is locked to its default, which is %s; neither the API nor a flag can change it in this version", orUnknown(status.Default))
	case status.Stability == features.StabilityGA:
		return "the feature is GA, and is no longer turned on and off through the API; as long as its gate is not locked, --feature-gates of the server that owns it can"
	case status.Dynamic:
		return ""
	case status.Source == features.SourceObserved:
		return fmt.Sprintf("the feature is only observed, and its components do not read it here; start them with --feature-gates=%s=true or false", name)
	}
	return fmt.Sprintf("status.dynamic is false; start the server that owns the feature with --dynamic-features=%s/%s to turn it on and off through the API", namespace, name)
}

func orUnknown(value features.Value) string {
	if value == "" {
		return "unknown"
	}
	return string(value)
}
