// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	annexadmission "github.com/kube-annex/annex/server/extension/admission"
	"github.com/kube-annex/annex/server/internal/admission"
)

// admissionOptions adds our own rules to the plugins that run.
func (o *Options) admissionOptions() admission.Options {
	all := o.Admission
	all.Plugins = slices.Concat(annexadmission.Plugins(), o.Admission.Plugins)
	return all
}

// applyAdmission builds the chain that every write passes: the namespace must exist on the host, then our own rules, then the policies and
// webhooks that the host has configured. The host itself does not admit what it passes on to an extension.
func (o *completedOptions) applyAdmission(config *genericapiserver.RecommendedConfig, host kubernetes.Interface) (*admission.Chain, error) {
	json := rest.CopyConfig(o.host)
	json.ContentType, json.AcceptContentTypes = "", ""
	parameters, err := dynamic.NewForConfig(json)
	if err != nil {
		return nil, fmt.Errorf("create a client of the host for parameters of policies: %w", err)
	}
	own, err := discovery.NewDiscoveryClientForConfig(config.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("make the loopback client for schemas: %w", err)
	}
	services := o.ServiceResolver
	if services == nil {
		services = webhook.NewDefaultServiceResolver()
	}
	chain, err := admission.New(o.admissionOptions(), admission.Server{
		ID: config.APIServerID, Client: host, Dynamic: parameters, Informers: config.SharedInformerFactory,
		Kinds: configurationKinds(host.Discovery()), Groups: groupNames(), Schemas: own.OpenAPIV3(),
		Services: services, Credentials: admission.Credentials(nil, config.TracerProvider),
		Authorizer: config.Authorization.Authorizer, Gates: config.FeatureGate, Version: config.EffectiveVersion, Drained: config.DrainedNotify(),
	})
	if err != nil {
		return nil, err
	}
	config.AdmissionControl = chain.Handler()
	config.AddReadyzChecks(chain)
	return chain, nil
}

// groupNames are the API groups of the server.
func groupNames() []string {
	groups := sets.New[string]()
	for _, version := range GroupVersions() {
		groups.Insert(version.Group)
	}
	return sets.List(groups)
}

// configurationKinds returns the kinds by which the host configures admission. An older one does not have all of them.
func configurationKinds(host discovery.DiscoveryInterfaces) func(context.Context) (sets.Set[string], error) {
	return func(ctx context.Context) (sets.Set[string], error) {
		kinds := sets.New[string]()
		list, err := host.ServerResourcesForGroupVersionWithContext(ctx, admissionregistrationv1.SchemeGroupVersion.String())
		if apierrors.IsNotFound(err) {
			return kinds, nil
		}
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			kinds.Insert(resource.Name)
		}
		return kinds, nil
	}
}
