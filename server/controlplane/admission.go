// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"

	"github.com/kube-annex/annex/server/admission"
	nativeadmission "github.com/kube-annex/annex/server/controlplane/admission"
)

// systemNamespaces exist in every control plane and stay.
func systemNamespaces() []string {
	return []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "annex-system"}
}

// admissionOptions adds the rules of native kinds to the plugins that run.
func (o *Options) admissionOptions() admission.Options {
	all := o.Admission
	all.Plugins = slices.Concat(nativeadmission.Plugins(), o.Admission.Plugins, []admission.Plugin{nativeadmission.Quota()})
	return all
}

// webhooks say how those of the configurations, and of CustomResourceDefinitions, are reached.
type webhooks struct {
	services    webhook.ServiceResolver
	credentials webhook.AuthenticationInfoResolverWrapper
}

// applyAdmission has all writes pass the plugins, which the control plane itself configures.
func (s *Server) applyAdmission(f *foundation) error {
	config := f.config
	loopback, err := url.Parse(config.LoopbackClientConfig.Host)
	if err != nil {
		return fmt.Errorf("set up webhooks: %w", err)
	}
	f.webhooks = webhooks{
		services:    aggregatorapiserver.NewLoopbackServiceResolver(s.options.ServiceResolver, loopback),
		credentials: admission.Credentials(config.LoopbackClientConfig, config.TracerProvider),
	}
	parameters := rest.CopyConfig(config.LoopbackClientConfig)
	parameters.ContentType = ""
	anything, err := dynamic.NewForConfig(parameters)
	if err != nil {
		return fmt.Errorf("make the loopback client for parameters of policies: %w", err)
	}
	plugins := s.options.admissionOptions()
	if !s.options.serve(quotaKind) {
		plugins.Without = append(slices.Clone(plugins.Without), nativeadmission.ResourceQuotaName)
	}
	if f.admission, err = admission.New(plugins, admission.Server{
		ID: config.APIServerID, Client: f.client, Dynamic: anything, Informers: config.SharedInformerFactory, Immortal: systemNamespaces(),
		Serves: s.options.kinds.Serve, Schemas: f.client.Discovery().OpenAPIV3(),
		Services: f.webhooks.services, Credentials: f.webhooks.credentials,
		Authorizer: config.Authorization.Authorizer, Gates: config.FeatureGate, Version: config.EffectiveVersion, Drained: config.DrainedNotify(),
	}); err != nil {
		return err
	}
	config.AdmissionControl = f.admission.Handler()
	config.AddReadyzChecks(f.admission)
	return nil
}
