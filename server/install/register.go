// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// fieldManager is who owns the fields that a registration sets.
	fieldManager = ManagedBy
	// withdrawal is how long it may take to delete what a failed registration has created.
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
	retired, err := itemsOf(r.retired())
	if err != nil {
		return err
	}
	rights := c.rights(ctx)
	if err := c.look(ctx, rights, slices.Concat(items, retired), "create", "patch"); err != nil {
		return err
	}
	retired = slices.DeleteFunc(retired, func(i *item) bool { return i.existing == nil || !i.own() || i.leaving() })
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
	for _, i := range retired {
		rights.needOn(ctx, i, "delete")
	}
	if err := rights.verdict(ctx); err != nil {
		return err
	}
	for _, i := range skipped {
		report(i.String(), Skipped, skippedNote)
	}
	if err := c.rehearse(ctx, items, dryRun, report); err != nil {
		return err
	}
	if dryRun {
		return c.retire(ctx, retired, true, report)
	}
	var created []*item
	for _, i := range items {
		if i.adopted() {
			report(i.String(), Kept, adoptedNote)
			continue
		}
		applied, action, err := c.apply(ctx, i, false)
		if err != nil {
			failed := fmt.Errorf("apply %s: %w", i, c.explain(err))
			return errors.Join(failed, c.lookAgain(ctx, i, err), c.withdraw(ctx, created, report))
		}
		if action == Created {
			created = append(created, &item{object: i.object, resource: i.resource, existing: applied})
		}
		report(i.String(), action, "")
	}
	return c.retire(ctx, retired, false, report)
}

// retire deletes what only former releases have made.
func (c *Cluster) retire(ctx context.Context, retired []*item, dryRun bool, report Report) error {
	for _, i := range retired {
		if err := c.remove(ctx, i, dryRun); err != nil {
			return fmt.Errorf("delete %s, which is not needed any more: %w", i, c.explain(err))
		}
		report(i.String(), Deleted, "it is not needed any more")
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
			if _, action, err = c.apply(ctx, i, true); err != nil {
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

// apply makes the object in the cluster what it shall be, in what this package says about it. The action says whether this call has created
// the object; another run may have created it since the cluster was looked at.
func (c *Cluster) apply(ctx context.Context, i *item, dryRun bool) (*unstructured.Unstructured, Action, error) {
	desired, err := content(i.object)
	if err != nil {
		return nil, "", err
	}
	body, err := desired.MarshalJSON()
	if err != nil {
		return nil, "", fmt.Errorf("encode %s: %w", i, err)
	}
	// The objects are our own, so whoever else has set the same fields to other values yields.
	request := c.requests.Patch(types.ApplyYAMLPatchType).AbsPath(i.path()...).Body(body).
		Param("fieldManager", fieldManager).Param("force", "true")
	if dryRun {
		request.Param("dryRun", metav1.DryRunAll)
	}
	var status int
	applied := &unstructured.Unstructured{}
	result := request.Do(ctx).StatusCode(&status)
	if err := result.Error(); err != nil {
		return nil, "", err
	}
	answer, _ := result.Raw()
	if err := applied.UnmarshalJSON(answer); err != nil {
		return nil, "", fmt.Errorf("decode %s: %w", i, err)
	}
	switch {
	case status == http.StatusCreated:
		return applied, Created, nil
	case i.existing == nil,
		dryRun && !sameContent(applied, i.existing), !dryRun && applied.GetResourceVersion() != i.existing.GetResourceVersion():
		return applied, Configured, nil
	}
	return applied, Unchanged, nil
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

// lookAgain returns an error if the object is there now, although applying it has failed without a clear answer. It may be of this run or of
// another, so it is left alone.
func (c *Cluster) lookAgain(ctx context.Context, i *item, failure error) error {
	var answer apierrors.APIStatus
	if i.existing != nil || errors.As(failure, &answer) && answer.Status().Code < http.StatusInternalServerError {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawal)
	defer cancel()
	_, err := c.client(i).Get(ctx, i.object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look whether %s was created nevertheless: %w", i, c.explain(err))
	}
	return fmt.Errorf("%s exists now and was left alone, since another run may have created it; register again, or remove it with `annex unregister`", i)
}

// withdraw deletes what this run has created, so that a registration that failed halfway leaves nothing behind. A namespace stays while it
// holds anything that this run has not created.
func (c *Cluster) withdraw(ctx context.Context, created []*item, report Report) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawal)
	defer cancel()
	var errs []error
	for _, i := range slices.Backward(created) {
		if i.resource.Resource == "namespaces" {
			others, err := c.others(ctx, created, i.object.GetName())
			if err != nil {
				errs = append(errs, fmt.Errorf("%s was left alone: %w", i, err))
				continue
			}
			if others != nil {
				report(i.String(), Kept, "it holds "+strings.Join(others, ", "))
				continue
			}
		}
		switch err := c.remove(ctx, i, false); {
		case apierrors.IsConflict(err):
			report(i.String(), Kept, "it was replaced by someone else")
		case err != nil:
			errs = append(errs, fmt.Errorf("delete %s again: %w", i, err))
		default:
			report(i.String(), Withdrawn, "")
		}
	}
	return errors.Join(errs...)
}
