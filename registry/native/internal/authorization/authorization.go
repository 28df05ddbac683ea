// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package authorization answers what somebody may do: SubjectAccessReview and its narrower relatives, and
// SelfSubjectRulesReview. Nothing of it is stored.
package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served in.
var GroupVersion = authorizationv1.SchemeGroupVersion

// Kinds lists the kinds of the group. Access is judged by the authorizer; rules lists what a user may do.
func Kinds(access authorizer.Authorizer, rules authorizer.RuleResolver) []resource.Served {
	return []resource.Served{
		(&reviews[*authorizationv1.SubjectAccessReview]{
			singular: "subjectaccessreview",
			empty:    func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} },
			answer:   subjectAccess(access),
		}).served(),
		(&reviews[*authorizationv1.LocalSubjectAccessReview]{
			singular: "localsubjectaccessreview", namespaced: true,
			empty:  func() *authorizationv1.LocalSubjectAccessReview { return &authorizationv1.LocalSubjectAccessReview{} },
			answer: localSubjectAccess(access),
		}).served(),
		(&reviews[*authorizationv1.SelfSubjectAccessReview]{
			singular: "selfsubjectaccessreview",
			empty:    func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} },
			answer:   selfSubjectAccess(access),
		}).served(),
		(&reviews[*authorizationv1.SelfSubjectRulesReview]{
			singular: "selfsubjectrulesreview",
			empty:    func() *authorizationv1.SelfSubjectRulesReview { return &authorizationv1.SelfSubjectRulesReview{} },
			answer:   selfSubjectRules(rules),
		}).served(),
	}
}
