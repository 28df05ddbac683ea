// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package authorization answers what somebody may do: SubjectAccessReview and its narrower relatives, and
// SelfSubjectRulesReview. Nothing of it is stored.
package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served in.
var GroupVersion = authorizationv1.SchemeGroupVersion

// Types returns an empty object of every type of the group.
func Types() []runtime.Object {
	return []runtime.Object{
		&authorizationv1.SubjectAccessReview{}, &authorizationv1.LocalSubjectAccessReview{},
		&authorizationv1.SelfSubjectAccessReview{}, &authorizationv1.SelfSubjectRulesReview{},
	}
}

// Install adds the kinds to their group. Access is judged by the authorizer; rules, where not nil, lists what a user may do.
func Install(group *resource.Group, access authorizer.Authorizer, rules authorizer.RuleResolver) {
	group.Add("subjectaccessreviews", &reviews[*authorizationv1.SubjectAccessReview]{
		singular: "subjectaccessreview",
		empty:    func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} },
		answer:   subjectAccess(access),
	})
	group.Add("localsubjectaccessreviews", &reviews[*authorizationv1.LocalSubjectAccessReview]{
		singular: "localsubjectaccessreview", namespaced: true,
		empty:  func() *authorizationv1.LocalSubjectAccessReview { return &authorizationv1.LocalSubjectAccessReview{} },
		answer: localSubjectAccess(access),
	})
	group.Add("selfsubjectaccessreviews", &reviews[*authorizationv1.SelfSubjectAccessReview]{
		singular: "selfsubjectaccessreview",
		empty:    func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} },
		answer:   selfSubjectAccess(access),
	})
	if rules == nil {
		return
	}
	group.Add("selfsubjectrulesreviews", &reviews[*authorizationv1.SelfSubjectRulesReview]{
		singular: "selfsubjectrulesreview",
		empty:    func() *authorizationv1.SelfSubjectRulesReview { return &authorizationv1.SelfSubjectRulesReview{} },
		answer:   selfSubjectRules(rules),
	})
}
