// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admissionregistration serves the configurations of admission webhooks, and admission policies with their bindings.
//
// This package is not a stable API.
package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served and stored in.
var GroupVersion = admissionregistrationv1.SchemeGroupVersion

// Kinds lists the kinds of the group. Whoever names parameters of policies must have access to them; mapper tells of what resource they are.
func Kinds(access authorizer.Authorizer, mapper meta.RESTMapper) []resource.Served {
	cel, params := newLanguage(), parameters{access, mapper}
	return []resource.Served{
		validatingWebhooks(cel).Served(),
		mutatingWebhooks(cel).Served(),
		// Bindings read the policies, which therefore come first.
		validatingAdmissionPolicies(cel, params).Served(),
		servedValidatingBindings(params),
		mutatingAdmissionPolicies(cel, params).Served(),
		servedMutatingBindings(params),
	}
}

// categories are what kubectl calls the kinds of the group together.
func categories() []string { return []string{"api-extensions"} }

func defaultPointer[T any](value **T, standard T) {
	if *value == nil {
		*value = &standard
	}
}
