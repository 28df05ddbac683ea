// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"fmt"
	"io"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"

	annexadmission "github.com/kube-annex/annex/server/extension/admission"
)

// applyAdmission builds the chain that every write passes: the namespace must exist on the host, then our own rules.
func applyAdmission(config *genericapiserver.RecommendedConfig, host kubernetes.Interface) error {
	plugins := admission.NewPlugins()
	lifecycle.Register(plugins)
	annexadmission.Register(plugins)
	names := append([]string{lifecycle.PluginName}, annexadmission.Names()...)
	initialize := initializer.New(host, nil, config.SharedInformerFactory, config.Authorization.Authorizer,
		config.FeatureGate, config.EffectiveVersion, config.DrainedNotify(), nil)
	chain, err := plugins.NewFromPlugins(names, noConfiguration{}, initialize, admission.DecoratorFunc(admissionmetrics.WithControllerMetrics))
	if err != nil {
		return fmt.Errorf("build the admission chain: %w", err)
	}
	config.AdmissionControl = admissionmetrics.WithStepMetrics(chain)
	return nil
}

// noConfiguration is given to plugins, none of which takes any.
type noConfiguration struct{}

func (noConfiguration) ConfigFor(string) (io.Reader, error) { return nil, nil }
