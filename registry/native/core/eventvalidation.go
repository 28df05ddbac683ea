// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxEventWord    = 128
	maxEventMessage = 1024
)

func validateEvent(event *corev1.Event) field.ErrorList {
	return ValidateEvent(event, "reportingComponent")
}

// ValidateEvent judges what Events of both groups have to be, in the names of the legacy group; reporter is the group's own name for
// who reports. Events without eventTime are of old clients and only have to be in the namespace of what they are about.
func ValidateEvent(event *corev1.Event, reporter string) field.ErrorList {
	about := event.InvolvedObject.Namespace
	if event.EventTime.IsZero() {
		if about != event.Namespace && (about != "" || event.Namespace != metav1.NamespaceDefault) {
			return otherNamespace(about)
		}
		return nil
	}
	var errs field.ErrorList
	if about == "" && event.Namespace != metav1.NamespaceDefault && event.Namespace != metav1.NamespaceSystem {
		errs = append(errs, otherNamespace(about)...)
	}
	if event.ReportingController == "" {
		errs = append(errs, field.Required(field.NewPath(reporter), ""))
	}
	for _, message := range validation.IsQualifiedName(event.ReportingController) {
		errs = append(errs, field.Invalid(field.NewPath(reporter), event.ReportingController, message))
	}
	errs = append(errs, validateEventWord("reportingInstance", event.ReportingInstance)...)
	errs = append(errs, validateEventWord("action", event.Action)...)
	errs = append(errs, validateEventWord("reason", event.Reason)...)
	return append(errs, notLonger("message", event.Message, maxEventMessage)...)
}

func otherNamespace(about string) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"), about, "does not match event.namespace")}
}

func validateEventWord(name, word string) field.ErrorList {
	if word == "" {
		return field.ErrorList{field.Required(field.NewPath(name), "")}
	}
	return notLonger(name, word, maxEventWord)
}

func notLonger(name, text string, limit int) field.ErrorList {
	if len(text) <= limit {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath(name), "", fmt.Sprintf("can have at most %d characters", limit))}
}
