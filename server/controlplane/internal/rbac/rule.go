// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// everything is the star of verbs, groups, resources and paths.
const everything = "*"

// allows tells whether a rule allows what is asked.
func allows(rule *rbacv1.PolicyRule, asked authorizer.Attributes) bool {
	if !has(rule.Verbs, asked.GetVerb()) {
		return false
	}
	if !asked.IsResourceRequest() {
		return slices.ContainsFunc(rule.NonResourceURLs, func(pattern string) bool { return pathMatches(pattern, asked.GetPath()) })
	}
	return has(rule.APIGroups, asked.GetAPIGroup()) && hasResource(rule.Resources, asked.GetResource(), asked.GetSubresource()) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, asked.GetName()))
}

func has(set []string, member string) bool {
	return slices.Contains(set, member) || slices.Contains(set, everything)
}

// hasResource knows three forms besides the plain name: everything, one subresource of one resource, and one subresource of all.
func hasResource(set []string, resource, subresource string) bool {
	for _, pattern := range set {
		switch {
		case pattern == everything:
			return true
		case subresource == "":
			if pattern == resource {
				return true
			}
		case pattern == resource+"/"+subresource, pattern == everything+"/"+subresource:
			return true
		}
	}
	return false
}

// pathMatches tells whether a path is the pattern, or begins with what stands before its final star.
func pathMatches(pattern, path string) bool {
	if pattern == path {
		return true
	}
	return strings.HasSuffix(pattern, everything) && strings.HasPrefix(path, strings.TrimRight(pattern, everything))
}
