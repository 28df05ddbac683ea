// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"io"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Kinds of configurations, by their resources.
const (
	mutatingWebhooks         = "mutatingwebhookconfigurations"
	validatingWebhooks       = "validatingwebhookconfigurations"
	mutatingPolicies         = "mutatingadmissionpolicies"
	mutatingPolicyBindings   = "mutatingadmissionpolicybindings"
	validatingPolicies       = "validatingadmissionpolicies"
	validatingPolicyBindings = "validatingadmissionpolicybindings"
)

// policyKinds are those that no policy applies to.
var policyKinds = []string{mutatingPolicies, mutatingPolicyBindings, validatingPolicies, validatingPolicyBindings}

// ConfigurationKinds are what policies and webhooks are configured with. A server that evaluates those of another one reads them.
func ConfigurationKinds() []schema.GroupResource {
	var kinds []schema.GroupResource
	for _, definition := range definitions() {
		kinds = append(kinds, definition.resources()...)
	}
	return kinds
}

// definition is a plugin that acts on what the API configures.
type definition struct {
	name       string
	mutates    bool
	operations []admission.Operation
	// kinds are what it needs the API to have.
	kinds []string
	// exempt tells about requests that it never acts on.
	exempt func(admission.Attributes) bool
	// configurations is the kind without which it has nothing to do, and bindings, if there is one, what it reads besides.
	configurations, bindings func(informers.SharedInformerFactory) cache.SharedIndexInformer
	make                     func(configuration io.Reader) (admission.Interface, error)
}

func (d definition) resources() []schema.GroupResource {
	var resources []schema.GroupResource
	for _, kind := range d.kinds {
		resources = append(resources, schema.GroupResource{Group: admissionregistrationv1.GroupName, Resource: kind})
	}
	return resources
}

// definitions are in the order in which the plugins run.
func definitions() []definition {
	writes := []admission.Operation{admission.Create, admission.Update, admission.Connect}
	all := append(writes, admission.Delete)
	return []definition{
		{
			name: MutatingAdmissionPolicy, mutates: true, operations: writes,
			kinds: []string{mutatingPolicies, mutatingPolicyBindings}, exempt: exemptFromPolicies,
			configurations: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Admissionregistration().V1().MutatingAdmissionPolicies().Informer()
			},
			bindings: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Admissionregistration().V1().MutatingAdmissionPolicyBindings().Informer()
			},
			make: func(configuration io.Reader) (admission.Interface, error) {
				return mutatingpolicy.NewPlugin(configuration)
			},
		},
		{
			name: MutatingAdmissionWebhook, mutates: true, operations: all, kinds: []string{mutatingWebhooks}, exempt: exemptFromWebhooks,
			configurations: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Admissionregistration().V1().MutatingWebhookConfigurations().Informer()
			},
			make: func(configuration io.Reader) (admission.Interface, error) {
				return mutatingwebhook.NewMutatingWebhook(configuration)
			},
		},
		{
			name: ValidatingAdmissionPolicy, operations: all,
			kinds: []string{validatingPolicies, validatingPolicyBindings}, exempt: exemptFromPolicies,
			configurations: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Admissionregistration().V1().ValidatingAdmissionPolicies().Informer()
			},
			bindings: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Admissionregistration().V1().ValidatingAdmissionPolicyBindings().Informer()
			},
			make: func(configuration io.Reader) (admission.Interface, error) {
				return validatingpolicy.NewPlugin(configuration)
			},
		},
		{
			name: ValidatingAdmissionWebhook, operations: all, kinds: []string{validatingWebhooks}, exempt: exemptFromWebhooks,
			configurations: func(f informers.SharedInformerFactory) cache.SharedIndexInformer {
				return f.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
			},
			make: func(configuration io.Reader) (admission.Interface, error) {
				return validatingwebhook.NewValidatingAdmissionWebhook(configuration)
			},
		},
	}
}
