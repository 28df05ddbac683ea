// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/kube-annex/annex/registry/resource"
)

// rights reads who holds which rights from the stores of the group. A kind that is not served has no objects.
type rights struct {
	group *resource.Group
}

// cover returns nil if the user of the request holds all of the rights that are given, in the request's namespace, and else an error
// that lists those that he does not hold.
func (r rights) cover(ctx context.Context, given []rbacv1.PolicyRule) error {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return errors.New("the request has no user")
	}
	held, err := r.heldBy(ctx, who)
	covered, missing := validation.Covers(held, given)
	if covered {
		return nil
	}
	unread := ""
	if err != nil {
		unread = fmt.Sprintf("; resolution errors: [%v]", err)
	}
	return fmt.Errorf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s%s",
		who.GetName(), who.GetGroups(), strings.Join(describe(missing), "\n"), unread)
}

// heldBy lists the rights of a user everywhere and in the request's namespace. With an error it lists those that could be read.
func (r rights) heldBy(ctx context.Context, who user.Info) ([]rbacv1.PolicyRule, error) {
	var held []rbacv1.PolicyRule
	var errs []error
	add := func(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespace string) {
		if !slices.ContainsFunc(subjects, func(subject rbacv1.Subject) bool { return is(who, subject, namespace) }) {
			return
		}
		rules, err := r.of(ctx, ref, namespace)
		if err != nil {
			errs = append(errs, err)
		}
		held = append(held, rules...)
	}
	everywhere := &rbacv1.ClusterRoleBindingList{}
	if err := list(ctx, r, clusterRoleBindings, metav1.NamespaceNone, &everywhere); err != nil {
		errs = append(errs, err)
	}
	for _, binding := range everywhere.Items {
		add(binding.RoleRef, binding.Subjects, metav1.NamespaceNone)
	}
	namespace := request.NamespaceValue(ctx)
	if namespace == metav1.NamespaceNone {
		return held, errors.Join(errs...)
	}
	here := &rbacv1.RoleBindingList{}
	if err := list(ctx, r, roleBindings, namespace, &here); err != nil {
		errs = append(errs, err)
	}
	for _, binding := range here.Items {
		add(binding.RoleRef, binding.Subjects, namespace)
	}
	return held, errors.Join(errs...)
}

// of returns the rules of the role that a binding in the namespace refers to.
func (r rights) of(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	if ref.Kind == roleRefClusterRole {
		role := &rbacv1.ClusterRole{}
		err := get(ctx, r, clusterRoles, metav1.NamespaceNone, ref.Name, &role)
		return role.Rules, err
	}
	role := &rbacv1.Role{}
	err := get(ctx, r, roles, namespace, ref.Name, &role)
	return role.Rules, err
}

func get[T runtime.Object](ctx context.Context, r rights, resource, namespace, name string, into *T) error {
	store, ok := r.group.Storage(resource).(rest.Getter)
	if !ok {
		return apierrors.NewNotFound(GroupVersion.WithResource(resource).GroupResource(), name)
	}
	obj, err := store.Get(request.WithNamespace(ctx, namespace), name, &metav1.GetOptions{})
	if err == nil {
		*into = obj.(T)
	}
	return err
}

func list[T runtime.Object](ctx context.Context, r rights, resource, namespace string, into *T) error {
	store, ok := r.group.Storage(resource).(rest.Lister)
	if !ok {
		return nil
	}
	all, err := store.List(request.WithNamespace(ctx, namespace), &internalversion.ListOptions{})
	if err == nil {
		*into = all.(T)
	}
	return err
}

// is tells whether a subject of a binding in the namespace is the user.
func is(who user.Info, subject rbacv1.Subject, namespace string) bool {
	switch subject.Kind {
	case rbacv1.UserKind:
		return who.GetName() == subject.Name
	case rbacv1.GroupKind:
		return slices.Contains(who.GetGroups(), subject.Name)
	case rbacv1.ServiceAccountKind:
		if subject.Namespace != "" {
			namespace = subject.Namespace
		}
		return namespace != "" && serviceaccount.MatchesUsername(namespace, subject.Name, who.GetName())
	}
	return false
}

// describe writes single rights a line for each resource and path, in order.
func describe(rules []rbacv1.PolicyRule) []string {
	verbs := map[string][]string{}
	for _, rule := range rules {
		what := strings.Join(slices.Concat(
			part("APIGroups", rule.APIGroups), part("Resources", rule.Resources),
			part("NonResourceURLs", rule.NonResourceURLs), part("ResourceNames", rule.ResourceNames)), ", ")
		if len(rule.NonResourceURLs) > 0 {
			// Each verb of a path has a line of its own.
			what += fmt.Sprintf(", Verbs:%q", rule.Verbs)
			verbs[what] = nil
			continue
		}
		verbs[what] = append(verbs[what], rule.Verbs...)
	}
	lines := make([]string, 0, len(verbs))
	for what, verbs := range verbs {
		lines = append(lines, "{"+strings.Join(append([]string{what}, part("Verbs", verbs)...), ", ")+"}")
	}
	slices.Sort(lines)
	return lines
}

func part(name string, values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s:%q", name, values)}
}
