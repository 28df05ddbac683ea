// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served and stored in.
var GroupVersion = corev1.SchemeGroupVersion

// Types returns an empty object of every type of the group.
func Types() []runtime.Object {
	return []runtime.Object{
		&corev1.Namespace{}, &corev1.NamespaceList{},
		&corev1.ConfigMap{}, &corev1.ConfigMapList{},
		&corev1.Secret{}, &corev1.SecretList{},
	}
}

// Defaults returns how objects of the group are completed when they are read from a request or from storage.
func Defaults() map[runtime.Object]func(any) {
	return map[runtime.Object]func(any){
		&corev1.Namespace{}:     func(obj any) { defaultNamespace(obj.(*corev1.Namespace)) },
		&corev1.NamespaceList{}: func(obj any) { eachItem(obj.(*corev1.NamespaceList).Items, defaultNamespace) },
		&corev1.Secret{}:        func(obj any) { defaultSecret(obj.(*corev1.Secret)) },
		&corev1.SecretList{}:    func(obj any) { eachItem(obj.(*corev1.SecretList).Items, defaultSecret) },
	}
}

// SelectableFields returns the field selectors of each kind beyond metadata.name and metadata.namespace.
func SelectableFields() map[schema.GroupVersionKind][]string {
	return map[schema.GroupVersionKind][]string{
		GroupVersion.WithKind("Namespace"): {"name", "status.phase"},
		GroupVersion.WithKind("Secret"):    {"type"},
	}
}

// Install adds the kinds to their group.
func Install(group *resource.Group) error {
	if err := installNamespaces(group); err != nil {
		return err
	}
	if err := configMaps().Install(group); err != nil {
		return err
	}
	return secrets().Install(group)
}

func eachItem[T any](items []T, do func(*T)) {
	for i := range items {
		do(&items[i])
	}
}
