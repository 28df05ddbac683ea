// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install adds features.k8s.io, with all its versions, to a scheme.
package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/kube-annex/annex/apis/features"
	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// Install registers the hub and every served version of features.k8s.io, and prefers v1alpha1 for storage and discovery.
func Install(scheme *runtime.Scheme) {
	utilruntime.Must(features.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.SchemeGroupVersion))
}
