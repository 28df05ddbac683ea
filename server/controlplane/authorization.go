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
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/server/controlplane/controllers/bootstrappolicy"
	"github.com/kube-annex/annex/server/controlplane/rbac"
)

// probePaths are open to everybody until roles have been read: probes do not wait for that. From then on a ClusterRole opens them,
// system:public-info-viewer.
var probePaths = []string{"/healthz", "/livez", "/readyz"}

// roleKinds are what role-based access control needs.
var roleKinds = []schema.GroupResource{
	clusterRoleKind,
	{Group: rbacv1.GroupName, Resource: "clusterrolebindings"},
	{Group: rbacv1.GroupName, Resource: "roles"},
	{Group: rbacv1.GroupName, Resource: "rolebindings"},
}

// access is who may do what.
type access struct {
	authorizer authorizer.Authorizer
	rules      authorizer.RuleResolver
	// policy brings about the roles and bindings of the start; nil without role-based access control.
	policy *bootstrappolicy.Controller
}

// access asks in turn: whether the user is an administrator, or a probe; roles and their bindings; the webhook; and the authorizers given
// in code.
func (o *completedOptions) access(client kubernetes.Interface, informers informers.SharedInformerFactory) (*access, error) {
	a := &access{}
	chain := []union.NamedAuthorizer{{AuthorizerName: "masters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}}
	var resolvers rules
	if o.serve(roleKinds...) {
		var err error
		all := informers.Rbac().V1()
		if a.policy, err = bootstrappolicy.New(client.RbacV1(), all, bootstrappolicy.Standard().And(o.Policy)); err != nil {
			return nil, fmt.Errorf("set up the roles of the start: %w", err)
		}
		roles, err := rbac.New(all, a.policy.Ready())
		if err != nil {
			return nil, fmt.Errorf("set up role-based access control: %w", err)
		}
		chain = append(chain,
			union.NamedAuthorizer{AuthorizerName: "probes", Authorizer: probes(a.policy.Ready())},
			union.NamedAuthorizer{AuthorizerName: "rbac", Authorizer: authorizer.AuthorizerFunc(roles.Authorize)})
		resolvers = append(resolvers, roles)
	} else {
		chain = append(chain, union.NamedAuthorizer{AuthorizerName: "probes", Authorizer: probes(nil)})
		resolvers = append(resolvers, mastersRules{})
	}
	asking, err := o.AuthorizationWebhook.authorizer()
	if err != nil {
		return nil, err
	}
	if asking != nil {
		chain = append(chain, union.NamedAuthorizer{AuthorizerName: "webhook", Authorizer: asking})
		resolvers = append(resolvers, nil) // it cannot tell its rules
	}
	for i, other := range o.Authorizers {
		chain = append(chain, union.NamedAuthorizer{AuthorizerName: fmt.Sprintf("added-%d", i+1), Authorizer: other})
		resolver, _ := other.(authorizer.RuleResolver)
		resolvers = append(resolvers, resolver)
	}
	a.rules = resolvers
	a.authorizer, err = union.New(chain...)
	return a, err
}

// probes lets everybody probe until the channel is closed.
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

// rules lists the rules of all that can tell theirs. Nil stands for an authorizer that cannot.
type rules []authorizer.RuleResolver

// RulesFor implements authorizer.RuleResolver.
func (r rules) RulesFor(ctx context.Context, who user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	known := slices.DeleteFunc(slices.Clone(r), func(resolver authorizer.RuleResolver) bool { return resolver == nil })
	resources, paths, incomplete, err := union.NewRuleResolvers(known...).RulesFor(ctx, who, namespace)
	return resources, paths, incomplete || len(known) < len(r), err
}

// mastersRules are what administrators may do where no ClusterRole says so.
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
