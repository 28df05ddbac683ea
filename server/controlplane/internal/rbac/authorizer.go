// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"errors"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	informers "k8s.io/client-go/informers/rbac/v1"
	listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
)

// patience is how long a question waits for the roles to be read.
const patience = 10 * time.Second

// errUnread is an error of the server, and not a refusal.
var errUnread = errors.New("roles and bindings have not been read yet; try again")

// Authorizer answers by the roles and bindings that its informers have.
type Authorizer struct {
	roles               listers.RoleLister
	clusterRoles        listers.ClusterRoleLister
	roleBindings        cache.Indexer
	clusterRoleBindings cache.Indexer
	ready               <-chan struct{}
}

var (
	_ authorizer.UnconditionalAuthorizer = &Authorizer{}
	_ authorizer.RuleResolver            = &Authorizer{}
)

// New returns an authorizer that reads from the informers, which others start, and answers once ready is closed. The error says that
// they run already.
func New(informers informers.Interface, ready <-chan struct{}) (*Authorizer, error) {
	roleBindings, clusterRoleBindings := informers.RoleBindings().Informer(), informers.ClusterRoleBindings().Informer()
	for _, bindings := range []cache.SharedIndexInformer{roleBindings, clusterRoleBindings} {
		if err := bindings.AddIndexers(cache.Indexers{bySubject: subjectKeys}); err != nil {
			return nil, fmt.Errorf("index bindings by subject: %w", err)
		}
	}
	return &Authorizer{
		roles: informers.Roles().Lister(), clusterRoles: informers.ClusterRoles().Lister(),
		roleBindings: roleBindings.GetIndexer(), clusterRoleBindings: clusterRoleBindings.GetIndexer(),
		ready: ready,
	}, nil
}

// Authorize is an authorizer.AuthorizerFunc. The reason names the binding that allows, or the roles that bindings of the user refer
// to in vain.
func (a *Authorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if attributes.GetUser() == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if err := a.wait(ctx); err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	var because *grant
	err := a.visit(attributes.GetUser(), attributes.GetNamespace(), func(g grant, rules []rbacv1.PolicyRule) bool {
		for i := range rules {
			if allows(&rules[i], attributes) {
				because = &g
				return false
			}
		}
		return true
	})
	if because != nil {
		return authorizer.DecisionAllow, "RBAC: allowed by " + because.String(), nil
	}
	if err != nil {
		return authorizer.DecisionNoOpinion, "RBAC: " + err.Error(), nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// RulesFor implements authorizer.RuleResolver. With an error the rules are those that could be found.
func (a *Authorizer) RulesFor(ctx context.Context, who user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if err := a.wait(ctx); err != nil {
		return nil, nil, true, err
	}
	var resources []authorizer.ResourceRuleInfo
	var paths []authorizer.NonResourceRuleInfo
	seen := map[string]bool{}
	err := a.visit(who, namespace, func(g grant, rules []rbacv1.PolicyRule) bool {
		// Whoever is in two groups of a binding comes by it twice.
		binding := g.namespace + "/" + g.binding
		if seen[binding] {
			return true
		}
		seen[binding] = true
		for _, rule := range rules {
			if len(rule.Resources) > 0 {
				resources = append(resources, &authorizer.DefaultResourceRuleInfo{
					Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
				})
			}
			if len(rule.NonResourceURLs) > 0 {
				paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
			}
		}
		return true
	})
	return resources, paths, false, err
}

// wait returns when there is something to answer by.
func (a *Authorizer) wait(ctx context.Context) error {
	select {
	case <-a.ready:
		return nil
	default:
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-a.ready:
		return nil
	case <-ctx.Done():
		return errUnread
	case <-timeout.C:
		return errUnread
	}
}

// grant is a binding by which a user has the rights of a role.
type grant struct {
	// namespace is the binding's; empty where it holds everywhere.
	namespace string
	binding   string
	ref       rbacv1.RoleRef
	subject   rbacv1.Subject
}

// String names the binding as Kubernetes does.
func (g grant) String() string {
	kind, name := "ClusterRoleBinding", g.binding
	if g.namespace != "" {
		kind, name = "RoleBinding", g.binding+"/"+g.namespace
	}
	subject := g.subject.Name
	if g.subject.Kind == rbacv1.ServiceAccountKind {
		namespace := g.subject.Namespace
		if namespace == "" {
			namespace = g.namespace
		}
		subject += "/" + namespace
	}
	return fmt.Sprintf("%s %q of %s %q to %s %q", kind, name, g.ref.Kind, g.ref.Name, g.subject.Kind, subject)
}

// visit passes on the rules that a user has everywhere, and those that he has in the namespace, until see returns false. The error
// lists the roles that are missing.
func (a *Authorizer) visit(who user.Info, namespace string, see func(grant, []rbacv1.PolicyRule) bool) error {
	var errs []error
	follow := func(g grant) bool {
		rules, err := a.rulesOf(g)
		if err != nil {
			errs = append(errs, err)
			return true
		}
		return see(g, rules)
	}
	if !visitBindings(a.clusterRoleBindings, who, "", follow) || namespace == "" {
		return utilerrors.NewAggregate(errs)
	}
	visitBindings(a.roleBindings, who, namespace, follow)
	return utilerrors.NewAggregate(errs)
}

// rulesOf returns the rules of the role that the binding refers to.
func (a *Authorizer) rulesOf(g grant) ([]rbacv1.PolicyRule, error) {
	switch g.ref.Kind {
	case "ClusterRole":
		role, err := a.clusterRoles.Get(g.ref.Name)
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	case "Role":
		role, err := a.roles.Roles(g.namespace).Get(g.ref.Name)
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	}
	return nil, fmt.Errorf("unsupported role reference kind: %q", g.ref.Kind)
}
