// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
)

// The built-in plugins.
const (
	NamespaceLifecycle         = lifecycle.PluginName
	MutatingAdmissionPolicy    = mutatingpolicy.PluginName
	MutatingAdmissionWebhook   = mutatingwebhook.PluginName
	ValidatingAdmissionPolicy  = validatingpolicy.PluginName
	ValidatingAdmissionWebhook = validatingwebhook.PluginName
)

// configFlag is named as that of a kube-apiserver.
const configFlag = "admission-control-config-file"

// Plugin is one that a server adds to the chain.
type Plugin struct {
	// Name tells it from others in metrics, in Options.DisabledPlugins and in the configuration file.
	Name string
	// New makes it. The configuration is what the file has for it, or nil. The plugin is initialized as those of k8s.io/apiserver are, by
	// the interfaces of k8s.io/apiserver/pkg/admission/initializer that it has.
	New func(configuration io.Reader) (admission.Interface, error)
	// Last has it run after what the API configures. Quotas do, since policies and webhooks may still change what is counted.
	Last bool
}

// Options say which plugins run.
type Options struct {
	// DisabledPlugins lists plugins that do not run.
	DisabledPlugins []string
	// Plugins run as well.
	Plugins []Plugin
	// ConfigFile holds configurations of plugins, such as the credentials that webhooks are called with.
	ConfigFile string
}

// AddFlags adds --admission-control-config-file.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ConfigFile, configFlag, o.ConfigFile,
		"File with an AdmissionConfiguration of apiserver.config.k8s.io/v1. It holds the configurations of admission plugins, such as the kubeconfig with the credentials for webhooks.")
}

// Names lists all plugins that there are, in the order in which they run.
func (o *Options) Names() []string { return o.names(nil) }

// Validate reports every mistake, those in the configuration file included.
func (o *Options) Validate() []error {
	var errs []error
	names := o.names(nil)
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			errs = append(errs, fmt.Errorf("there are two admission plugins with the name %s; give the one that was added another name", name))
		}
	}
	for _, unwanted := range o.DisabledPlugins {
		if !slices.Contains(names, unwanted) {
			errs = append(errs, fmt.Errorf("there is no admission plugin %s to do without; there are %v", unwanted, names))
		}
	}
	if _, err := o.configurations(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// names lists the plugins in the order in which they run, but those that are unwanted.
func (o *Options) names(unwanted []string) []string {
	var first, last []string
	for _, plugin := range o.Plugins {
		if plugin.Last {
			last = append(last, plugin.Name)
		} else {
			first = append(first, plugin.Name)
		}
	}
	names := slices.Concat([]string{NamespaceLifecycle}, first,
		[]string{MutatingAdmissionPolicy, MutatingAdmissionWebhook, ValidatingAdmissionPolicy, ValidatingAdmissionWebhook}, last)
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(unwanted, name) })
}
