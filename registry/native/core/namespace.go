// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/kube-annex/annex/registry/resource"
)

func namespaces() resource.Kind[*corev1.Namespace] {
	return resource.Kind[*corev1.Namespace]{
		Plural: "namespaces", Singular: "namespace", ShortNames: []string{"ns"}, Scope: resource.Cluster,
		New:          func() *corev1.Namespace { return &corev1.Namespace{} },
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
		// Finalizers have an endpoint of their own, which comes with the deletion of namespaces.
		PrepareForUpdate: func(_ context.Context, ns, old *corev1.Namespace) { ns.Spec.Finalizers = old.Spec.Finalizers },
		Validate:         validateNamespace,
		ValidateUpdate:   func(ns, _ *corev1.Namespace) field.ErrorList { return validateNamespace(ns) },
		ValidateStatusUpdate: func(ns, _ *corev1.Namespace) field.ErrorList {
			want := corev1.NamespaceActive
			if ns.DeletionTimestamp != nil {
				want = corev1.NamespaceTerminating
			}
			if ns.Status.Phase != want {
				return field.ErrorList{field.NotSupported(field.NewPath("status", "phase"), ns.Status.Phase, []corev1.NamespacePhase{want})}
			}
			return nil
		},
		SelectableFields: map[string]func(*corev1.Namespace) string{
			"name":         func(ns *corev1.Namespace) string { return ns.Name },
			"status.phase": func(ns *corev1.Namespace) string { return string(ns.Status.Phase) },
		},
		Columns: []resource.Column[*corev1.Namespace]{{
			Name: "Status", Description: corev1.NamespaceStatus{}.SwaggerDoc()["phase"],
			Of: func(ns *corev1.Namespace) any { return string(ns.Status.Phase) },
		}},
		UnconditionalUpdate: true,
	}
}

func servedNamespaces() resource.Served {
	kind := namespaces()
	served := kind.Served()
	served.Install = func(group *resource.Group) error {
		if err := kind.Install(group); err != nil {
			return err
		}
		group.Add(kind.Plural, undeletable{group.Storage(kind.Plural).(keptStorage)})
		return nil
	}
	return served
}

// defaultNamespace keeps the label that lets namespace selectors name a namespace.
func defaultNamespace(ns *corev1.Namespace) {
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
	for i, finalizer := range ns.Spec.Finalizers {
		path := field.NewPath("spec", "finalizers").Index(i)
		errs = append(errs, validation.ValidateFinalizerName(string(finalizer), path)...)
		if finalizer != corev1.FinalizerKubernetes && !strings.Contains(string(finalizer), "/") {
			errs = append(errs, field.Invalid(path, finalizer, "must be \"kubernetes\" or a qualified name such as example.com/finalizer"))
		}
	}
	return errs
}

// keptStorage is what a resource's endpoint serves apart from deletion.
type keptStorage interface {
	rest.Storage
	rest.Scoper
	rest.SingularNameProvider
	rest.ShortNamesProvider
	rest.CategoriesProvider
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.Creater
	rest.Updater
	rest.ResetFieldsStrategy
	rest.StorageVersionProvider
	rest.StorageWithReadiness
}

var _ keptStorage = &resource.REST{}

// undeletable hides the deletion of a storage, so that its verbs are not served.
type undeletable struct{ keptStorage }
