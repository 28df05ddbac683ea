// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"errors"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/kube-annex/annex/registry/resource"
)

// checks decide whether the user of a request may write what gives rights to others.
type checks[T resource.Object] struct {
	// permitted tells whether the user may do so whatever rights he holds.
	permitted func(ctx context.Context, obj T) bool
	// given lists the rights that the object gives.
	given func(ctx context.Context, held rights, obj T) ([]rbacv1.PolicyRule, error)
	// unlimited tells whether the object can give any right, now or later, and why that is refused. Nil means that none can.
	unlimited func(obj, old T) error
}

func roleChecks(access authorizer.Authorizer) checks[*rbacv1.Role] {
	return checks[*rbacv1.Role]{
		permitted: func(ctx context.Context, _ *rbacv1.Role) bool { return mayEscalate(ctx, access) },
		given: func(_ context.Context, _ rights, role *rbacv1.Role) ([]rbacv1.PolicyRule, error) {
			return role.Rules, nil
		},
	}
}

func clusterRoleChecks(access authorizer.Authorizer) checks[*rbacv1.ClusterRole] {
	return checks[*rbacv1.ClusterRole]{
		permitted: func(ctx context.Context, _ *rbacv1.ClusterRole) bool { return mayEscalate(ctx, access) },
		given: func(_ context.Context, _ rights, role *rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
			return role.Rules, nil
		},
		unlimited: func(role, old *rbacv1.ClusterRole) error {
			// Whoever takes an aggregation away takes the rules for his own, which nobody tightens any more.
			if aggregates(role) || aggregates(old) {
				return errors.New("must have cluster-admin privileges to use the aggregationRule")
			}
			return nil
		},
	}
}

func aggregates(role *rbacv1.ClusterRole) bool {
	return role != nil && role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

func roleBindingChecks(access authorizer.Authorizer) checks[*rbacv1.RoleBinding] {
	return checks[*rbacv1.RoleBinding]{
		permitted: func(ctx context.Context, binding *rbacv1.RoleBinding) bool {
			return mayBind(ctx, access, binding.RoleRef, request.NamespaceValue(ctx))
		},
		given: func(ctx context.Context, held rights, binding *rbacv1.RoleBinding) ([]rbacv1.PolicyRule, error) {
			return held.of(ctx, binding.RoleRef, request.NamespaceValue(ctx))
		},
	}
}

func clusterRoleBindingChecks(access authorizer.Authorizer) checks[*rbacv1.ClusterRoleBinding] {
	return checks[*rbacv1.ClusterRoleBinding]{
		permitted: func(ctx context.Context, binding *rbacv1.ClusterRoleBinding) bool {
			return mayBind(ctx, access, binding.RoleRef, metav1.NamespaceNone)
		},
		given: func(ctx context.Context, held rights, binding *rbacv1.ClusterRoleBinding) ([]rbacv1.PolicyRule, error) {
			return held.of(ctx, binding.RoleRef, metav1.NamespaceNone)
		},
	}
}

// mayEscalate tells whether the user may give any right through the role that the request names.
func mayEscalate(ctx context.Context, access authorizer.Authorizer) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.IsResourceRequest && allowed(ctx, access, authorizer.AttributesRecord{
		Verb: "escalate", APIGroup: info.APIGroup, Resource: info.Resource, Name: info.Name, Namespace: info.Namespace,
	})
}

// mayBind tells whether the user may give others the rights of the role; namespace is that of the binding.
func mayBind(ctx context.Context, access authorizer.Authorizer, ref rbacv1.RoleRef, namespace string) bool {
	attributes := authorizer.AttributesRecord{Verb: "bind", APIGroup: ref.APIGroup, Name: ref.Name, Namespace: namespace}
	switch ref.Kind {
	case roleRefClusterRole:
		attributes.Resource = clusterRoles
	case roleRefRole:
		attributes.Resource = roles
	default:
		// No binding can refer to it; validation says so.
		return true
	}
	return allowed(ctx, access, attributes)
}

// allowed fills in who asks. What cannot be judged is not allowed; the rights that the user holds decide then.
func allowed(ctx context.Context, access authorizer.Authorizer, attributes authorizer.AttributesRecord) bool {
	who, ok := request.UserFrom(ctx)
	if !ok || access == nil {
		return false
	}
	attributes.User, attributes.APIVersion, attributes.ResourceRequest = who, "*", true
	decision, _, _ := access.Authorize(ctx, attributes)
	return decision == authorizer.DecisionAllow
}

// checked is an endpoint whose creates and updates are checked before they are done.
type checked[T resource.Object] struct {
	*resource.REST
	checks checks[T]
	rights rights
}

// Create implements rest.Creater.
func (c *checked[T]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	var none T
	if err := c.check(ctx, obj.(T), none); err != nil {
		return nil, err
	}
	return c.REST.Create(ctx, obj, validate, options)
}

// Update implements rest.Updater.
func (c *checked[T]) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	checkedInfo := rest.WrapUpdatedObjectInfo(info, func(ctx context.Context, o, oldObject runtime.Object) (runtime.Object, error) {
		obj, old := o.(T), oldObject.(T)
		if givesWhatItGave(obj, old) {
			return obj, nil
		}
		return obj, c.check(ctx, obj, old)
	})
	return c.REST.Update(ctx, name, checkedInfo, validateCreate, validateUpdate, forceAllowCreate, options)
}

// givesWhatItGave tells whether nothing differs but what the collection of garbage writes. Labels do count: they aggregate.
func givesWhatItGave[T resource.Object](obj, old T) bool {
	same := obj.DeepCopyObject().(T)
	same.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
	same.SetOwnerReferences(old.GetOwnerReferences())
	same.SetFinalizers(old.GetFinalizers())
	same.SetManagedFields(old.GetManagedFields())
	return equality.Semantic.DeepEqual(same, old)
}

func (c *checked[T]) check(ctx context.Context, obj, old T) error {
	// The server itself is one of them.
	if who, ok := request.UserFrom(ctx); ok && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	if c.checks.permitted(ctx, obj) {
		return nil
	}
	given, err := c.checks.given(ctx, c.rights, obj)
	if err != nil {
		return err
	}
	if err := c.rights.cover(ctx, given); err != nil {
		return c.forbidden(obj, err)
	}
	if c.checks.unlimited == nil {
		return nil
	}
	if refusal := c.checks.unlimited(obj, old); refusal != nil && c.rights.cover(ctx, everything()) != nil {
		return c.forbidden(obj, refusal)
	}
	return nil
}

func (c *checked[T]) forbidden(obj T, why error) error {
	return apierrors.NewForbidden(c.DefaultQualifiedResource, obj.GetName(), why)
}

// everything is all there is to be allowed.
func everything() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{Verbs: []string{rbacv1.VerbAll}, APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll}},
		{Verbs: []string{rbacv1.VerbAll}, NonResourceURLs: []string{rbacv1.NonResourceAll}},
	}
}
