// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// fieldManager is who owns the fields that a registration sets.
	fieldManager = ManagedBy
	// withdrawal is how long it may take to delete what a failed registration has made.
	withdrawal = 30 * time.Second
	// adoptedNote says why a namespace is not changed.
	adoptedNote = "it was there before"
	// skippedNote says why a flow schema is not made.
	skippedNote = "the cluster has no priority and fairness"
)

// Action is what was done about one object.
type Action string

// What can be done about an object.
const (
	Created    Action = "created"
	Configured Action = "configured"
	Unchanged  Action = "unchanged"
	Deleted    Action = "deleted"
	Kept       Action = "kept"
	Withdrawn  Action = "deleted again"
	Skipped    Action = "skipped"
)

// Report is told what is done, an object at a time. The note may be empty.
type Report func(object string, action Action, note string)

// Register puts the registration into the cluster. With dryRun it only says what it would do. It changes nothing when it
// finds an object that belongs to someone else, a right that the user lacks, or an object that the cluster refuses.
func (c *Cluster) Register(ctx context.Context, r Registration, dryRun bool, report Report) error {
	items, err := itemsOf(r.Objects())
	if err != nil {
		return err
	}
	items, skipped, err := c.served(ctx, items)
	if err != nil {
		return err
	}
	rights := c.rights(ctx)
	if err := c.look(ctx, rights, items, "create", "patch"); err != nil {
		return err
	}
	if err := r.refuseForeign(items); err != nil {
		return err
	}
	if err := refuseLeaving(items); err != nil {
		return err
	}
	for _, i := range items {
		switch {
		case i.adopted():
		case i.existing == nil:
			rights.needOn(ctx, i, "create", "patch")
		default:
			rights.needOn(ctx, i, "patch")
		}
	}
	if err := rights.verdict(ctx); err != nil {
		return err
	}
	for _, i := range skipped {
		report(i.String(), Skipped, skippedNote)
	}
	if err := c.rehearse(ctx, items, dryRun, report); err != nil || dryRun {
		return err
	}
	var made []*item
	for _, i := range items {
		if i.adopted() {
			report(i.String(), Kept, adoptedNote)
			continue
		}
		action, err := c.apply(ctx, i, false)
		if err != nil {
			err = fmt.Errorf("apply %s: %w", i, c.explain(err))
			return errors.Join(err, c.withdraw(ctx, made, report))
		}
		if action == Created {
			made = append(made, i)
		}
		report(i.String(), action, "")
	}
	return nil
}

// adopted tells whether the object is a namespace that someone else made. It is used as it is.
func (i *item) adopted() bool {
	return i.existing != nil && !i.own() && i.resource.Resource == "namespaces"
}

// refuseForeign returns an error that names every object that belongs to someone else.
func (r Registration) refuseForeign(items []*item) error {
	var foreign []string
	for _, i := range items {
		switch {
		case i.existing == nil || i.adopted():
		case i.resource.Resource == "apiservices":
			if owner := r.foreignAPIService(i); owner != "" {
				foreign = append(foreign, i.String()+", "+owner)
			}
		case !i.own():
			foreign = append(foreign, i.String()+", which was not made by annex register")
		}
	}
	if foreign == nil {
		return nil
	}
	return fmt.Errorf("nothing was changed, since these exist already and belong to someone else: %s; remove them, or choose another --namespace or --service-name where their names follow from those",
		strings.Join(foreign, "; "))
}

// refuseLeaving returns an error that names every object that is being deleted.
func refuseLeaving(items []*item) error {
	var leaving []string
	for _, i := range items {
		if i.leaving() {
			leaving = append(leaving, i.String())
		}
	}
	if leaving == nil {
		return nil
	}
	return fmt.Errorf("nothing was changed, since these are just being deleted: %s; try again when they are gone", strings.Join(leaving, "; "))
}

// foreignAPIService says whose an APIService is, or nothing where it is of this registration.
func (r Registration) foreignAPIService(i *item) string {
	service, remote, _ := unstructured.NestedMap(i.existing.Object, "spec", "service")
	namespace, _ := service["namespace"].(string)
	name, _ := service["name"].(string)
	switch {
	case !remote:
		return "which the cluster serves by itself or from a CustomResourceDefinition"
	case namespace != r.Service.Namespace || name != r.Service.Name:
		if i.own() {
			return fmt.Sprintf("which another registration made for service %s/%s (`annex unregister --namespace %s --service-name %s` removes it)", namespace, name, namespace, name)
		}
		return fmt.Sprintf("which is served by service %s/%s", namespace, name)
	case !i.own():
		return fmt.Sprintf("which lacks the label %s=%s", ManagedByLabel, ManagedBy)
	}
	return ""
}

// rehearse applies everything in a dry run, apart from what cannot be tried since it needs other objects that are not
// there yet.
func (c *Cluster) rehearse(ctx context.Context, items []*item, tell bool, report Report) error {
	missing := map[string]bool{}
	for _, i := range items {
		missing[keyOf(i.object.GetObjectKind().GroupVersionKind().Kind, i.object.GetNamespace(), i.object.GetName())] = i.existing == nil
	}
	var refused []error
	for _, i := range items {
		action, note := Created, ""
		switch {
		case i.adopted():
			action, note = Kept, adoptedNote
		case !slices.ContainsFunc(needs(i.object), func(key string) bool { return missing[key] }):
			var err error
			if action, err = c.apply(ctx, i, true); err != nil {
				refused = append(refused, fmt.Errorf("%s: %w", i, c.explain(err)))
				continue
			}
		}
		if tell {
			report(i.String(), action, note)
		}
	}
	if err := errors.Join(refused...); err != nil {
		return fmt.Errorf("nothing was changed, since the cluster does not accept all objects: %w", err)
	}
	return nil
}

// needs are the keys of the objects without which the cluster does not accept this one.
func needs(object Object) []string {
	keys := []string{keyOf("Namespace", "", object.GetNamespace())}
	switch typed := object.(type) {
	case *rbacv1.ClusterRoleBinding:
		keys = append(keys, keyOf(typed.RoleRef.Kind, "", typed.RoleRef.Name))
	case *rbacv1.RoleBinding:
		namespace := typed.Namespace
		if typed.RoleRef.Kind == "ClusterRole" {
			namespace = ""
		}
		keys = append(keys, keyOf(typed.RoleRef.Kind, namespace, typed.RoleRef.Name))
	}
	return keys
}

func keyOf(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// apply makes the object in the cluster what it shall be, in what this package says about it.
func (c *Cluster) apply(ctx context.Context, i *item, dryRun bool) (Action, error) {
	desired, err := content(i.object)
	if err != nil {
		return "", err
	}
	// The objects are our own, so whoever else has set the same fields to other values yields.
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	applied, err := c.client(i).Apply(ctx, desired.GetName(), desired, options)
	switch {
	case err != nil:
		return "", err
	case i.existing == nil:
		return Created, nil
	case dryRun && !sameContent(applied, i.existing), !dryRun && applied.GetResourceVersion() != i.existing.GetResourceVersion():
		return Configured, nil
	}
	return Unchanged, nil
}

// sameContent compares without what changes with each write.
func sameContent(one, other *unstructured.Unstructured) bool {
	one, other = one.DeepCopy(), other.DeepCopy()
	for _, object := range []*unstructured.Unstructured{one, other} {
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		object.SetGeneration(0)
	}
	return equality.Semantic.DeepEqual(one.Object, other.Object)
}

// withdraw deletes what this run has made, so that a registration that failed halfway leaves nothing behind.
func (c *Cluster) withdraw(ctx context.Context, made []*item, report Report) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawal)
	defer cancel()
	var errs []error
	for _, i := range slices.Backward(made) {
		if err := c.client(i).Delete(ctx, i.object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete %s again: %w", i, err))
			continue
		}
		report(i.String(), Withdrawn, "")
	}
	return errors.Join(errs...)
}
