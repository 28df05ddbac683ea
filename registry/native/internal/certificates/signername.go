// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSignerName judges the name of a signer, which is a domain and a path: example.com/signer.
func validateSignerName(path *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	domain, rest, found := strings.Cut(name, "/")
	if !found || strings.Contains(rest, "/") {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	const maxDomain, maxRest = validation.DNS1123SubdomainMaxLength, validation.DNS1123SubdomainMaxLength + 1 + validation.DNS1123LabelMaxLength
	if len(domain) > maxDomain {
		errs = append(errs, field.TooLong(path, "", maxDomain))
	}
	errs = append(errs, validateLabels(path, domain, validation.IsDNS1123Label)...)
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(path, domain, "should be a domain with at least two segments separated by dots"))
	}
	// A path has room for the name of a namespaced object, a label and a subdomain.
	errs = append(errs, validateLabels(path, rest, validation.IsDNS1123Subdomain)...)
	if longest := maxDomain + 1 + maxRest; len(name) > longest {
		errs = append(errs, field.TooLong(path, "", longest))
	}
	return errs
}

// validateLabels judges what stands between dots, and stops at the first that is wrong.
func validateLabels(path *field.Path, text string, judge func(string) []string) field.ErrorList {
	for label := range strings.SplitSeq(text, ".") {
		var errs field.ErrorList
		for _, message := range judge(label) {
			errs = append(errs, field.Invalid(path, text, fmt.Sprintf("validating label %q: %s", label, message)))
		}
		if errs != nil {
			return errs
		}
	}
	return nil
}
