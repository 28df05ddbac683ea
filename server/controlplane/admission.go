// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// systemNamespaces exist in every control plane and stay.
func systemNamespaces() []string {
	return []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "annex-system"}
}

// applyAdmission keeps objects out of namespaces that do not exist.
func applyAdmission(config *genericapiserver.Config, client kubernetes.Interface, factory informers.SharedInformerFactory) error {
	namespaces, err := lifecycle.NewLifecycle(sets.New(systemNamespaces()...))
	if err != nil {
		return fmt.Errorf("set up admission: %w", err)
	}
	namespaces.SetExternalKubeClientSet(client)
	namespaces.SetExternalKubeInformerFactory(factory)
	if err := namespaces.ValidateInitialization(); err != nil {
		return fmt.Errorf("set up admission: %w", err)
	}
	config.AdmissionControl = metrics.WithStepMetrics(admission.NewChainHandler(
		metrics.WithControllerMetrics(namespaces, lifecycle.PluginName)))
	return nil
}
