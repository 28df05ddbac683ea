// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/resource"
)

// Kinds that a binding refers to.
const (
	roleRefRole        = "Role"
	roleRefClusterRole = "ClusterRole"
)

func roleBindingKind() resource.Kind[*rbacv1.RoleBinding] {
	validate := func(binding *rbacv1.RoleBinding) field.ErrorList {
		return append(validateRoleRef(binding.RoleRef, roleRefRole, roleRefClusterRole), validateSubjects(binding.Subjects, true)...)
	}
	return resource.Kind[*rbacv1.RoleBinding]{
		Plural: roleBindings, Singular: "rolebinding",
		NewList:      func() runtime.Object { return &rbacv1.RoleBindingList{} },
		Default:      func(binding *rbacv1.RoleBinding) { defaultBinding(&binding.RoleRef, binding.Subjects) },
		ValidateName: validateName,
		Validate:     validate,
		ValidateUpdate: func(binding, old *rbacv1.RoleBinding) field.ErrorList {
			return append(validate(binding), validation.ValidateImmutableField(binding.RoleRef, old.RoleRef, field.NewPath("roleRef"))...)
		},
		Columns: columns(func(binding *rbacv1.RoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) {
			return binding.RoleRef, binding.Subjects
		}, "roleBinding"),
		CreateOnUpdate:      true,
		UnconditionalUpdate: true,
	}
}

func clusterRoleBindingKind() resource.Kind[*rbacv1.ClusterRoleBinding] {
	validate := func(binding *rbacv1.ClusterRoleBinding) field.ErrorList {
		return append(validateRoleRef(binding.RoleRef, roleRefClusterRole), validateSubjects(binding.Subjects, false)...)
	}
	return resource.Kind[*rbacv1.ClusterRoleBinding]{
		Plural: clusterRoleBindings, Singular: "clusterrolebinding", Scope: resource.Cluster,
		NewList:      func() runtime.Object { return &rbacv1.ClusterRoleBindingList{} },
		Default:      func(binding *rbacv1.ClusterRoleBinding) { defaultBinding(&binding.RoleRef, binding.Subjects) },
		ValidateName: validateName,
		Validate:     validate,
		ValidateUpdate: func(binding, old *rbacv1.ClusterRoleBinding) field.ErrorList {
			return append(validate(binding), validation.ValidateImmutableField(binding.RoleRef, old.RoleRef, field.NewPath("roleRef"))...)
		},
		Columns: columns(func(binding *rbacv1.ClusterRoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) {
			return binding.RoleRef, binding.Subjects
		}, "clusterRoleBinding"),
		CreateOnUpdate:      true,
		UnconditionalUpdate: true,
	}
}

// defaultBinding names the group of what is referred to where that is this group.
func defaultBinding(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	if ref.APIGroup == "" {
		ref.APIGroup = rbacv1.GroupName
	}
	for i := range subjects {
		if subject := &subjects[i]; subject.APIGroup == "" && (subject.Kind == rbacv1.UserKind || subject.Kind == rbacv1.GroupKind) {
			subject.APIGroup = rbacv1.GroupName
		}
	}
}

func validateRoleRef(ref rbacv1.RoleRef, kinds ...string) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("roleRef")
	if ref.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(at.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	if !slices.Contains(kinds, ref.Kind) {
		errs = append(errs, field.NotSupported(at.Child("kind"), ref.Kind, kinds))
	}
	if ref.Name == "" {
		return append(errs, field.Required(at.Child("name"), ""))
	}
	for _, message := range validateName(ref.Name, false) {
		errs = append(errs, field.Invalid(at.Child("name"), ref.Name, message))
	}
	return errs
}

func validateSubjects(subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i, subject := range subjects {
		at := field.NewPath("subjects").Index(i)
		if subject.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		switch subject.Kind {
		case rbacv1.ServiceAccountKind:
			errs = append(errs, validateServiceAccount(subject, namespaced, at)...)
		case rbacv1.UserKind, rbacv1.GroupKind:
			if subject.APIGroup != rbacv1.GroupName {
				errs = append(errs, field.NotSupported(at.Child("apiGroup"), subject.APIGroup, []string{rbacv1.GroupName}))
			}
		default:
			errs = append(errs, field.NotSupported(at.Child("kind"), subject.Kind, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
		}
	}
	return errs
}

func validateServiceAccount(subject rbacv1.Subject, namespaced bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if subject.Name != "" {
		for _, message := range validation.ValidateServiceAccountName(subject.Name, false) {
			errs = append(errs, field.Invalid(at.Child("name"), subject.Name, message))
		}
	}
	if subject.APIGroup != "" {
		errs = append(errs, field.NotSupported(at.Child("apiGroup"), subject.APIGroup, []string{""}))
	}
	// In a namespace an account without one is of the binding's own.
	if !namespaced && subject.Namespace == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	return errs
}

func columns[T any](parts func(T) (rbacv1.RoleRef, []rbacv1.Subject), of string) []resource.Column[T] {
	names := func(kind string) func(T) any {
		return func(binding T) any {
			var names []string
			_, subjects := parts(binding)
			for _, subject := range subjects {
				switch {
				case subject.Kind != kind:
				case kind == rbacv1.ServiceAccountKind:
					names = append(names, subject.Namespace+"/"+subject.Name)
				default:
					names = append(names, subject.Name)
				}
			}
			return strings.Join(names, ", ")
		}
	}
	return []resource.Column[T]{
		{Name: "Role", Description: rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"], Of: func(binding T) any {
			ref, _ := parts(binding)
			return ref.Kind + "/" + ref.Name
		}},
		{Name: "Users", Priority: 1, Description: "Users in the " + of, Of: names(rbacv1.UserKind)},
		{Name: "Groups", Priority: 1, Description: "Groups in the " + of, Of: names(rbacv1.GroupKind)},
		{Name: "ServiceAccounts", Priority: 1, Description: "ServiceAccounts in the " + of, Of: names(rbacv1.ServiceAccountKind)},
	}
}
