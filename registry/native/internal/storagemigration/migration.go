// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storagemigration

import (
	"strings"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/resource"
)

type migration = storagemigrationv1.StorageVersionMigration

func storageVersionMigrations() resource.Kind[*migration] {
	return resource.Kind[*migration]{
		Plural: "storageversionmigrations", Singular: "storageversionmigration", Scope: resource.Cluster,
		NewList:              func() runtime.Object { return &storagemigrationv1.StorageVersionMigrationList{} },
		Validate:             validateMigration,
		ValidateUpdate:       validateMigrationUpdate,
		ValidateStatusUpdate: validateMigrationStatusUpdate,
		QualifiedFinalizers:  true,
		Generations:          resource.NoGenerations,
		Columns: []resource.Column[*migration]{
			{Name: "Resource", Description: "GroupResource to migrate", Of: func(m *migration) any { return m.Spec.Resource.String() }},
			{Name: "Status", Description: "Status of the migration", Of: func(m *migration) any { return summary(m) }},
		},
		Age: resource.NoAge,
	}
}

func validateMigration(m *migration) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "resource")
	if name := m.Spec.Resource.Resource; name == "" {
		errs = append(errs, field.Required(path.Child("resource"), "must name the resource to migrate"))
	} else if messages := utilvalidation.IsDNS1035Label(name); len(messages) > 0 {
		errs = append(errs, field.Invalid(path.Child("resource"), name, strings.Join(messages, ",")))
	}
	if group := m.Spec.Resource.Group; group != "" {
		if messages := utilvalidation.IsDNS1123Subdomain(group); len(messages) > 0 {
			errs = append(errs, field.Invalid(path.Child("group"), group, strings.Join(messages, ",")))
		}
	}
	return errs
}

func validateMigrationUpdate(m, old *migration) field.ErrorList {
	return append(validateMigration(m), validation.ValidateImmutableField(m.Spec, old.Spec, field.NewPath("spec"))...)
}

// validateMigrationStatusUpdate lets a migration begin once, at one resource version, and end once.
func validateMigrationStatusUpdate(m, old *migration) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	version := m.Status.ResourceVersion
	if version != "" {
		if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
			errs = append(errs, field.Invalid(path.Child("resourceVersion"), version, err.Error()))
		}
	}
	if begun := old.Status.ResourceVersion; begun != "" && begun != version {
		errs = append(errs, field.Invalid(path.Child("resourceVersion"), version, validation.FieldImmutableErrorMsg))
	}
	conditions := path.Child("conditions")
	errs = append(errs, metav1validation.ValidateConditions(m.Status.Conditions, conditions)...)
	if is(m, storagemigrationv1.MigrationSucceeded) && is(m, storagemigrationv1.MigrationFailed) {
		errs = append(errs, field.Invalid(conditions, m.Status.Conditions, "only one of Succeeded and Failed may be true"))
	}
	for _, end := range []storagemigrationv1.MigrationConditionType{storagemigrationv1.MigrationSucceeded, storagemigrationv1.MigrationFailed} {
		if is(old, end) && !is(m, end) {
			errs = append(errs, field.Invalid(conditions, m.Status.Conditions, string(end)+" must stay true once it is"))
		}
	}
	return errs
}

func is(m *migration, condition storagemigrationv1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(condition))
}

// summary is the last condition that is true.
func summary(m *migration) string {
	shown := "Unknown"
	for _, condition := range m.Status.Conditions {
		switch storagemigrationv1.MigrationConditionType(condition.Type) {
		case storagemigrationv1.MigrationRunning, storagemigrationv1.MigrationSucceeded, storagemigrationv1.MigrationFailed:
			if condition.Status == metav1.ConditionTrue {
				shown = condition.Type
			}
		}
	}
	return shown
}
