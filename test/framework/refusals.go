// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/kube-annex/annex/server/controlplane/bootstrappolicy"
)

// controllerPrefix begins the names of the accounts of controllers.
const controllerPrefix = "system:serviceaccount:kube-system:"

// refusals is asked last, so a controller's account comes here where its role does not allow what the controller does.
type refusals struct{ authorizer.AuthorizerFunc }

// refusalsFail fails the test if a controller attempts what it may not do.
func refusalsFail(t testing.TB) refusals {
	controllers := map[string]bool{}
	note := func(subjects []rbacv1.Subject) {
		for _, subject := range subjects {
			controllers[controllerPrefix+subject.Name] = subject.Kind == rbacv1.ServiceAccountKind
		}
	}
	policy := bootstrappolicy.Standard()
	for _, binding := range policy.ClusterRoleBindings {
		note(binding.Subjects)
	}
	for _, binding := range policy.RoleBindings {
		note(binding.Subjects)
	}
	return refusals{func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		// A request that ends while it waits for the roles has been refused by nobody.
		if controllers[a.GetUser().GetName()] && ctx.Err() == nil {
			t.Errorf("%s may not %s %s %s in %q", strings.TrimPrefix(a.GetUser().GetName(), controllerPrefix), a.GetVerb(),
				strings.Join([]string{a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetName()}, "/"), a.GetPath(), a.GetNamespace())
		}
		return authorizer.DecisionNoOpinion, "", nil
	}}
}

// RulesFor implements authorizer.RuleResolver.
func (refusals) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return nil, nil, false, nil
}
