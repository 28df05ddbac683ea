// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"
)

const everything = "*"

// policy authorizes by a fixed list of grants. It allows or has no opinion, and never denies.
type policy []grant

var (
	_ authorizer.AuthorizerFunc = policy{}.Authorize
	_ authorizer.RuleResolver   = policy{}
)

// authorizers asks the policy first, and then the others.
func (p policy) authorizers(others []authorizer.Authorizer) (authorizer.Authorizer, error) {
	chain := []union.NamedAuthorizer{{AuthorizerName: "built-in", Authorizer: authorizer.AuthorizerFunc(p.Authorize)}}
	for i, other := range others {
		chain = append(chain, union.NamedAuthorizer{AuthorizerName: fmt.Sprintf("added-%d", i+1), Authorizer: other})
	}
	return union.New(chain...)
}

// Authorize is an authorizer.AuthorizerFunc.
func (p policy) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser() == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	for _, grant := range p {
		if !grant.reaches(a.GetUser()) || grant.namespace != "" && grant.namespace != a.GetNamespace() {
			continue
		}
		if slices.ContainsFunc(grant.rules, func(rule rbacv1.PolicyRule) bool { return allows(rule, a) }) {
			return authorizer.DecisionAllow, grant.why, nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// RulesFor implements authorizer.RuleResolver.
func (p policy) RulesFor(_ context.Context, who user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	var resources []authorizer.ResourceRuleInfo
	var paths []authorizer.NonResourceRuleInfo
	for _, grant := range p {
		if !grant.reaches(who) || grant.namespace != "" && grant.namespace != namespace {
			continue
		}
		for _, rule := range grant.rules {
			if len(rule.NonResourceURLs) > 0 {
				paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
				continue
			}
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
	}
	return resources, paths, false, nil
}

func (g grant) reaches(who user.Info) bool {
	return slices.ContainsFunc(g.to, func(subject string) bool {
		if name, ok := strings.CutPrefix(subject, "user:"); ok {
			return name == who.GetName()
		}
		name, ok := strings.CutPrefix(subject, "group:")
		return ok && slices.Contains(who.GetGroups(), name)
	})
}

func allows(rule rbacv1.PolicyRule, a authorizer.Attributes) bool {
	if !has(rule.Verbs, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return slices.ContainsFunc(rule.NonResourceURLs, func(pattern string) bool { return pathMatches(pattern, a.GetPath()) })
	}
	resource := a.GetResource()
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	return has(rule.APIGroups, a.GetAPIGroup()) && has(rule.Resources, resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.GetName()))
}

func has(set []string, member string) bool {
	return slices.Contains(set, member) || slices.Contains(set, everything)
}

// pathMatches tells whether a path is the pattern, or begins with what stands before its final star.
func pathMatches(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, everything); ok {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}
