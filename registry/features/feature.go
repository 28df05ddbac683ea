// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-annex/annex/apis/features"
	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/apis/features/validation"
	"github.com/kube-annex/annex/registry/resource"
)

var featureKind = resource.Kind[*features.Feature]{
	Plural:     "features",
	Singular:   "feature",
	ShortNames: []string{"feat"},
	NewList:    func() runtime.Object { return &features.FeatureList{} },

	ValidateName:         validation.ValidateFeatureName,
	Validate:             validation.ValidateFeature,
	ValidateUpdate:       validation.ValidateFeatureUpdate,
	ValidateStatusUpdate: validation.ValidateFeatureStatusUpdate,
	GatedFields:          v1alpha1.GatedFields(),

	SelectableFields: map[string]func(*features.Feature) string{
		"status.state":  func(f *features.Feature) string { return string(f.Status.State) },
		"status.source": func(f *features.Feature) string { return string(f.Status.Source) },
	},
	Columns: []resource.Column[*features.Feature]{
		{Name: "State", Description: "Where the feature stands.", Of: func(f *features.Feature) any { return string(f.Status.State) }},
		{Name: "Stability", Description: "How mature the feature is.", Of: func(f *features.Feature) any { return string(f.Status.Stability) }},
		{Name: "Default", Description: "Value when nobody sets it.", Of: func(f *features.Feature) any { return string(f.Status.Default) }},
		{Name: "Source", Description: "Where the configured value comes from.", Of: func(f *features.Feature) any { return string(f.Status.Source) }},
		{Name: "Uses", Description: "How many versions of components see the feature on and off.", Of: uses},
		{Name: "Task", Description: "What is being done before the state is On or Off.", Of: task},
		{Name: "Version", Description: "Version of the announcing component.", Priority: 1, Of: func(f *features.Feature) any { return f.Status.Version }},
		{Name: "Safe-To-Upgrade", Description: "Whether nothing about the feature stands in the way of an upgrade.", Priority: 1, Of: safeToUpgrade},
	},
}

// uses counts versions of components by the value they see.
func uses(f *features.Feature) any {
	on, off := 0, 0
	for _, use := range f.Status.Uses {
		if use.Value == features.ValueEnabled {
			on++
		} else {
			off++
		}
	}
	var parts []string
	if on > 0 {
		parts = append(parts, fmt.Sprintf("%d on", on))
	}
	if off > 0 {
		parts = append(parts, fmt.Sprintf("%d off", off))
	}
	return strings.Join(parts, ", ")
}

// task names the task at work and how far it is.
func task(f *features.Feature) any {
	if len(f.Status.Tasks) == 0 {
		return ""
	}
	first := f.Status.Tasks[0]
	if first.Total == nil || *first.Total <= 0 {
		return first.Name
	}
	return fmt.Sprintf("%s %d%%", first.Name, first.Done*100 / *first.Total)
}

func safeToUpgrade(f *features.Feature) any {
	condition := meta.FindStatusCondition(f.Status.Conditions, features.FeatureSafeToUpgrade)
	if condition == nil {
		return string(metav1.ConditionUnknown)
	}
	return string(condition.Status)
}
