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
// that owns the feature sets (KEP-3920, stage 3). Clearing it, and writing it as it is, is always allowed.
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
	if old, ok := request.GetOldObject().(*features.Feature); ok && (old.Status.Dynamic || old.Spec.Desired == feature.Spec.Desired) {
		return nil
	}
	return apierrors.NewForbidden(features.Resource("features"), feature.Name, fmt.Errorf(
		"spec.desired cannot be set because status.dynamic is false; start the server that owns the feature with --dynamic-features=%s/%s to turn it on and off through the API",
		request.GetNamespace(), feature.Name))
}
