// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/resource"
)

func namespaces() resource.Kind[*corev1.Namespace] {
	return resource.Kind[*corev1.Namespace]{
		Plural: "namespaces", Singular: "namespace", ShortNames: []string{"ns"}, Scope: resource.Cluster,
		NewList:      func() runtime.Object { return &corev1.NamespaceList{} },
		Default:      defaultNamespace,
		ValidateName: validation.ValidateNamespaceName,
		PrepareForCreate: func(_ context.Context, ns *corev1.Namespace) {
			ns.Status.Phase = corev1.NamespaceActive
			if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
				ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
			}
			// A generated name was not known yet when the request was decoded.
			defaultNamespace(ns)
		},
		// Finalizers have an endpoint of their own.
		PrepareForUpdate:     func(_ context.Context, ns, old *corev1.Namespace) { ns.Spec.Finalizers = old.Spec.Finalizers },
		Validate:             validateNamespace,
		ValidateUpdate:       func(ns, _ *corev1.Namespace) field.ErrorList { return validateNamespace(ns) },
		ValidateStatusUpdate: validateNamespaceStatus,
		QualifiedFinalizers:  true,
		MetadataWithStatus:   true,
		Subresources: []resource.Subresource[*corev1.Namespace]{{
			Name:     finalize,
			Fields:   [][]string{{"spec"}},
			Metadata: true,
			Take:     func(into, from *corev1.Namespace) { into.Spec = from.Spec },
			Validate: validateFinalize,
		}},
		Generations:   resource.NoGenerations,
		Remains:       func(ns *corev1.Namespace) bool { return len(ns.Spec.Finalizers) > 0 },
		ReturnDeleted: true,
		SelectableFields: map[string]func(*corev1.Namespace) string{
			"status.phase": func(ns *corev1.Namespace) string { return string(ns.Status.Phase) },
		},
		Columns: []resource.Column[*corev1.Namespace]{{
			Name: "Status", Description: "The status of the namespace",
			Of: func(ns *corev1.Namespace) any { return string(ns.Status.Phase) },
		}},
		UnconditionalUpdate: true,
	}
}

// defaultNamespace keeps the label that lets namespace selectors name a namespace.
func defaultNamespace(ns *corev1.Namespace) {
	if ns.Status.Phase == "" {
		ns.Status.Phase = corev1.NamespaceActive
	}
	if ns.Name == "" {
		return
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

func validateNamespace(ns *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for _, finalizer := range ns.Spec.Finalizers {
		errs = append(errs, validateNamespaceFinalizer(finalizer, field.NewPath("spec", "finalizers"))...)
	}
	return errs
}

func validateFinalize(ns, _ *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for i, finalizer := range ns.Spec.Finalizers {
		errs = append(errs, validateNamespaceFinalizer(finalizer, field.NewPath("spec", "finalizers").Index(i))...)
	}
	return errs
}

func validateNamespaceFinalizer(finalizer corev1.FinalizerName, path *field.Path) field.ErrorList {
	errs := validation.ValidateFinalizerName(string(finalizer), path)
	switch finalizer {
	case corev1.FinalizerKubernetes, metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		return errs
	}
	if !strings.Contains(string(finalizer), "/") {
		errs = append(errs, field.Invalid(path, finalizer, "must be \"kubernetes\" or a qualified name such as example.com/finalizer"))
	}
	return errs
}

// validateNamespaceStatus spells the path of the phase as kube-apiserver does.
func validateNamespaceStatus(ns, _ *corev1.Namespace) field.ErrorList {
	want, when := corev1.NamespaceActive, "not being deleted"
	if ns.DeletionTimestamp != nil {
		want, when = corev1.NamespaceTerminating, "being deleted"
	}
	if ns.Status.Phase != want {
		return field.ErrorList{field.Invalid(field.NewPath("status", "Phase"), ns.Status.Phase, "must be "+string(want)+" while the namespace is "+when)}
	}
	return nil
}
