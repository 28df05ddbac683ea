// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrappolicy

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	"k8s.io/klog/v2"
)

// object is one role or binding that there has to be.
type object struct {
	name       string
	namespaced bool
	// reconcile tells whether the object is as it should be, by what the informers have. With write set it is made so where it is
	// not, and the answer tells that it was not.
	reconcile func(ctx context.Context, write bool) (bool, error)
}

func (c *Controller) objectsOf(policy Policy) ([]object, error) {
	aggregated, err := policy.aggregated()
	if err != nil {
		return nil, err
	}
	var objects []object
	for _, want := range policy.ClusterRoles {
		kind := kind[*rbacv1.ClusterRole, reconciliation.RuleOwner]{
			name: "ClusterRole " + want.Name,
			get: func(_, name string) (*rbacv1.ClusterRole, error) {
				return c.informers.ClusterRoles().Lister().Get(name)
			},
			writer: func(string) writer[*rbacv1.ClusterRole] {
				return completing{c.client.ClusterRoles(), aggregated}
			},
			wrap: func(role *rbacv1.ClusterRole) reconciliation.RuleOwner {
				return reconciliation.ClusterRoleRuleOwner{ClusterRole: role}
			},
		}
		objects = append(objects, roleObject(kind, want))
	}
	for _, want := range policy.Roles {
		kind := kind[*rbacv1.Role, reconciliation.RuleOwner]{
			name: "Role " + want.Namespace + "/" + want.Name,
			get: func(namespace, name string) (*rbacv1.Role, error) {
				return c.informers.Roles().Lister().Roles(namespace).Get(name)
			},
			writer: func(namespace string) writer[*rbacv1.Role] { return c.client.Roles(namespace) },
			wrap:   func(role *rbacv1.Role) reconciliation.RuleOwner { return reconciliation.RoleRuleOwner{Role: role} },
		}
		objects = append(objects, roleObject(kind, want))
	}
	for _, want := range policy.ClusterRoleBindings {
		kind := kind[*rbacv1.ClusterRoleBinding, reconciliation.RoleBinding]{
			name: "ClusterRoleBinding " + want.Name,
			get: func(_, name string) (*rbacv1.ClusterRoleBinding, error) {
				return c.informers.ClusterRoleBindings().Lister().Get(name)
			},
			writer: func(string) writer[*rbacv1.ClusterRoleBinding] { return c.client.ClusterRoleBindings() },
			wrap: func(binding *rbacv1.ClusterRoleBinding) reconciliation.RoleBinding {
				return reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: binding}
			},
		}
		objects = append(objects, bindingObject(kind, want))
	}
	for _, want := range policy.RoleBindings {
		kind := kind[*rbacv1.RoleBinding, reconciliation.RoleBinding]{
			name: "RoleBinding " + want.Namespace + "/" + want.Name,
			get: func(namespace, name string) (*rbacv1.RoleBinding, error) {
				return c.informers.RoleBindings().Lister().RoleBindings(namespace).Get(name)
			},
			writer: func(namespace string) writer[*rbacv1.RoleBinding] { return c.client.RoleBindings(namespace) },
			wrap: func(binding *rbacv1.RoleBinding) reconciliation.RoleBinding {
				return reconciliation.RoleBindingAdapter{RoleBinding: binding}
			},
		}
		objects = append(objects, bindingObject(kind, want))
	}
	return objects, nil
}

func roleObject[T copied[T]](k kind[T, reconciliation.RuleOwner], want T) object {
	return k.object(want, func(client *clientOf[T, reconciliation.RuleOwner], write bool) (reconciliation.ReconcileOperation, bool, error) {
		options := reconciliation.ReconcileRoleOptions{Role: k.wrap(want.DeepCopy()), Confirm: write, Client: client}
		result, err := options.Run()
		if err != nil {
			return "", false, err
		}
		return result.Operation, result.Protected, nil
	})
}

func bindingObject[T copied[T]](k kind[T, reconciliation.RoleBinding], want T) object {
	return k.object(want, func(client *clientOf[T, reconciliation.RoleBinding], write bool) (reconciliation.ReconcileOperation, bool, error) {
		options := reconciliation.ReconcileRoleBindingOptions{RoleBinding: k.wrap(want.DeepCopy()), Confirm: write, Client: client}
		result, err := options.Run()
		if err != nil {
			return "", false, err
		}
		return result.Operation, result.Protected, nil
	})
}

// copied is a kind of objects.
type copied[T any] interface {
	metav1.Object
	runtime.Object
	DeepCopy() T
}

// writer is what clients of a kind write with.
type writer[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, obj T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, obj T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// kind is how objects of a kind are read and written, and shown to the library that compares them.
type kind[T copied[T], O owner] struct {
	name   string
	get    func(namespace, name string) (T, error)
	writer func(namespace string) writer[T]
	wrap   func(T) O
}

// owner is what the library calls a role or binding.
type owner interface {
	GetObject() runtime.Object
	GetNamespace() string
	GetName() string
}

func (k kind[T, O]) object(want T, run func(client *clientOf[T, O], write bool) (reconciliation.ReconcileOperation, bool, error)) object {
	return object{name: k.name, namespaced: want.GetNamespace() != "", reconcile: func(ctx context.Context, write bool) (bool, error) {
		operation, protected, err := run(&clientOf[T, O]{ctx: ctx, kind: k}, write)
		done := err == nil && (protected || operation == reconciliation.ReconcileNone)
		if write && err == nil && !done {
			klog.FromContext(ctx).V(2).Info("Brought about", "object", k.name, "operation", operation)
		}
		return done, err
	}}
}

// clientOf gives the library a client that reads from informers until they turn out to be behind.
type clientOf[T copied[T], O owner] struct {
	ctx    context.Context // the library's interface has none
	kind   kind[T, O]
	behind bool
}

// Get reads the object.
func (c *clientOf[T, O]) Get(namespace, name string) (O, error) {
	get := c.kind.get
	if c.behind {
		get = func(namespace, name string) (T, error) {
			return c.kind.writer(namespace).Get(c.ctx, name, metav1.GetOptions{})
		}
	}
	obj, err := get(namespace, name)
	return c.wrapped(obj, err)
}

// Create creates the object.
func (c *clientOf[T, O]) Create(in O) (O, error) {
	obj, err := c.kind.writer(in.GetNamespace()).Create(c.ctx, in.GetObject().(T), metav1.CreateOptions{})
	return c.wrapped(obj, err)
}

// Update updates the object.
func (c *clientOf[T, O]) Update(in O) (O, error) {
	obj, err := c.kind.writer(in.GetNamespace()).Update(c.ctx, in.GetObject().(T), metav1.UpdateOptions{})
	return c.wrapped(obj, err)
}

// Delete deletes the object that has the uid.
func (c *clientOf[T, O]) Delete(namespace, name string, uid types.UID) error {
	return c.kind.writer(namespace).Delete(c.ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
}

func (c *clientOf[T, O]) wrapped(obj T, err error) (O, error) {
	if err != nil {
		var none O
		c.behind = c.behind || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)
		return none, err
	}
	return c.kind.wrap(obj), nil
}

// completing creates aggregated roles with the rules that they come to have.
type completing struct {
	writer[*rbacv1.ClusterRole]
	rules map[string][]rbacv1.PolicyRule
}

// Create implements writer.
func (c completing) Create(ctx context.Context, role *rbacv1.ClusterRole, options metav1.CreateOptions) (*rbacv1.ClusterRole, error) {
	if role.AggregationRule != nil {
		role = role.DeepCopy()
		role.Rules = c.rules[role.Name]
	}
	return c.writer.Create(ctx, role, options)
}
