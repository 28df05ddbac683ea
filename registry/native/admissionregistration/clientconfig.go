// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhookvalidation "k8s.io/apiserver/pkg/util/webhook"
)

const defaultServicePort = 443

func defaultClientConfig(config *admissionregistrationv1.WebhookClientConfig) {
	if config.Service != nil {
		defaultPointer(&config.Service.Port, defaultServicePort)
	}
}

// validateClientConfig judges where a webhook is.
func validateClientConfig(config *admissionregistrationv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	url, service := config.URL, config.Service
	switch {
	case (url == nil) == (service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case url != nil:
		return webhookvalidation.ValidateWebhookURL(path.Child("url"), *url, true)
	}
	var port int32
	if service.Port != nil {
		port = *service.Port
	}
	// Upstream takes name and namespace for one another, and so tells of the one when the other is missing: clients may know it so.
	return webhookvalidation.ValidateWebhookService(path.Child("service"), service.Name, service.Namespace, service.Path, port)
}
