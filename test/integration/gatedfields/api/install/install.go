// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install adds example.annex.test to a scheme.
package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/kube-annex/annex/test/integration/gatedfields/api/v1alpha1"
)

// Install registers the served version, and the same Go types as their own hub.
func Install(scheme *runtime.Scheme) {
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	scheme.AddKnownTypes(schema.GroupVersion{Group: v1alpha1.GroupName, Version: runtime.APIVersionInternal}, &v1alpha1.Widget{}, &v1alpha1.WidgetList{})
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.SchemeGroupVersion))
}
