// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"

	nativeadmission "github.com/kube-annex/annex/server/controlplane/internal/admission"
	"github.com/kube-annex/annex/server/internal/admission"
)

// systemNamespaces are created at start and cannot be deleted.
func systemNamespaces() []string {
	return []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "annex-system"}
}

// admissionOptions adds the plugins of built-in resources to those of Options.
func (o *Options) admissionOptions() admission.Options {
	all := o.Admission
	all.Plugins = slices.Concat(nativeadmission.Plugins(), o.Admission.Plugins, []admission.Plugin{nativeadmission.Quota()})
	return all
}

// admissionConfig admits writes.
type admissionConfig struct {
	chain *admission.Chain
	// services and credentials reach the webhooks of admission and of CustomResourceDefinitions.
	services    webhook.ServiceResolver
	credentials webhook.AuthenticationInfoResolverWrapper
}

// newAdmission applies the options to the configuration. Policies and webhooks are read from this control plane.
func newAdmission(o CompletedOptions, config *genericapiserver.RecommendedConfig, loopback *loopback) (*admissionConfig, error) {
	address, err := url.Parse(loopback.config.Host)
	if err != nil {
		return nil, fmt.Errorf("parse the loopback address: %w", err)
	}
	services := aggregatorapiserver.NewLoopbackServiceResolver(o.ServiceResolver, address)
	credentials := admission.Credentials(loopback.config, config.TracerProvider)
	parameters := rest.CopyConfig(loopback.config)
	parameters.ContentType = ""
	dynamicClient, err := dynamic.NewForConfig(parameters)
	if err != nil {
		return nil, fmt.Errorf("create the loopback client for parameters of policies: %w", err)
	}
	plugins := o.admissionOptions()
	if !o.serve(quotaKind) {
		plugins.DisabledPlugins = append(slices.Clone(plugins.DisabledPlugins), nativeadmission.ResourceQuotaName)
	}
	chain, err := admission.New(plugins, admission.Server{
		ID: config.APIServerID, Client: loopback.client, Dynamic: dynamicClient, Informers: loopback.informers, ProtectedNamespaces: systemNamespaces(),
		Serves: o.kinds.Serve, Schemas: loopback.client.Discovery().OpenAPIV3(), Services: services, Credentials: credentials,
		Authorizer: config.Authorization.Authorizer, Gates: config.FeatureGate, Version: config.EffectiveVersion, Drained: config.DrainedNotify(),
	})
	if err != nil {
		return nil, err
	}
	config.AdmissionControl = chain.Handler()
	config.AddReadyzChecks(chain)
	return &admissionConfig{chain: chain, services: services, credentials: credentials}, nil
}
