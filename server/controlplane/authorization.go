// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/kube-annex/annex/server/controlplane/bootstrappolicy"
	"github.com/kube-annex/annex/server/controlplane/internal/rbac"
)

// probePaths are open to all callers until roles have been read. From then on the ClusterRole system:public-info-viewer opens them.
var probePaths = []string{"/healthz", "/livez", "/readyz"}

// roleKinds are the resources of role-based access control.
var roleKinds = []schema.GroupResource{
	clusterRoleKind,
	{Group: rbacv1.GroupName, Resource: "clusterrolebindings"},
	{Group: rbacv1.GroupName, Resource: "roles"},
	{Group: rbacv1.GroupName, Resource: "rolebindings"},
}

// newAuthorization applies the options to the configuration, and returns the controller of the bootstrap roles, or nil without role-based access
// control. Authorizers are called in this order: administrators, probes, roles and their bindings, the webhook, and those of Options.
func newAuthorization(o CompletedOptions, config *genericapiserver.Config, loopback *loopback) (*bootstrappolicy.Controller, error) {
	policy, authorizers, resolvers, err := o.roleAuthorizers(loopback)
	if err != nil {
		return nil, err
	}
	webhook, err := o.AuthorizationWebhook.authorizer()
	if err != nil {
		return nil, err
	}
	if webhook != nil {
		authorizers = append(authorizers, union.NamedAuthorizer{AuthorizerName: "webhook", Authorizer: webhook})
		resolvers = append(resolvers, nil) // a webhook cannot list its rules
	}
	for i, additional := range o.Authorizers {
		authorizers = append(authorizers, union.NamedAuthorizer{AuthorizerName: fmt.Sprintf("added-%d", i+1), Authorizer: additional})
		resolver, _ := additional.(authorizer.RuleResolver)
		resolvers = append(resolvers, resolver)
	}
	if config.Authorization.Authorizer, err = union.New(authorizers...); err != nil {
		return nil, fmt.Errorf("build the chain of authorizers: %w", err)
	}
	config.RuleResolver = resolvers
	return policy, nil
}

// roleAuthorizers returns the authorizers of administrators, probes and roles.
func (o *completedOptions) roleAuthorizers(loopback *loopback) (*bootstrappolicy.Controller, []union.NamedAuthorizer, rules, error) {
	masters := union.NamedAuthorizer{AuthorizerName: "masters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}
	if !o.serve(roleKinds...) {
		return nil, []union.NamedAuthorizer{masters, {AuthorizerName: "probes", Authorizer: probes(nil)}}, rules{mastersRules{}}, nil
	}
	informers := loopback.informers.Rbac().V1()
	policy, err := bootstrappolicy.New(loopback.client.RbacV1(), informers, bootstrappolicy.Standard().And(o.Policy))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("build the bootstrap policy: %w", err)
	}
	roles, err := rbac.New(informers, policy.Ready())
	if err != nil {
		return nil, nil, nil, fmt.Errorf("build the authorizer of roles: %w", err)
	}
	return policy, []union.NamedAuthorizer{
		masters,
		{AuthorizerName: "probes", Authorizer: probes(policy.Ready())},
		{AuthorizerName: "rbac", Authorizer: authorizer.AuthorizerFunc(roles.Authorize)},
	}, rules{roles}, nil
}

// probes allows all callers to get probePaths until the channel is closed.
func probes(until <-chan struct{}) authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		select {
		case <-until:
		default:
			if !a.IsResourceRequest() && slices.Contains(probePaths, a.GetPath()) {
				return authorizer.DecisionAllow, "probes are answered", nil
			}
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
}

// rules lists the rules of several authorizers; nil stands for an authorizer that cannot list its rules.
type rules []authorizer.RuleResolver

// RulesFor implements authorizer.RuleResolver.
func (r rules) RulesFor(ctx context.Context, who user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	known := slices.DeleteFunc(slices.Clone(r), func(resolver authorizer.RuleResolver) bool { return resolver == nil })
	resources, paths, incomplete, err := union.NewRuleResolvers(known...).RulesFor(ctx, who, namespace)
	return resources, paths, incomplete || len(known) < len(r), err
}

// mastersRules lists the rules of administrators where there are no ClusterRoles.
type mastersRules struct{}

// RulesFor implements authorizer.RuleResolver.
func (mastersRules) RulesFor(_ context.Context, who user.Info, _ string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if !slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
		return nil, nil, false, nil
	}
	all := []string{rbacv1.ResourceAll}
	return []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{Verbs: all, APIGroups: all, Resources: all}},
		[]authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: all, NonResourceURLs: all}}, false, nil
}
