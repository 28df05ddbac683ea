// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/kube-annex/annex/registry/resource"
)

// finalize is the subresource that writes the finalizers of the spec.
const finalize = "finalize"

// servedNamespaces are namespaces with a deletion of their own, without the deletion of many at once, and with a /finalize that
// takes PUT alone, as in kube-apiserver.
func servedNamespaces() resource.Served {
	kind := namespaces()
	served := kind.Served()
	served.Install = func(group *resource.Group) error {
		store, err := kind.InstallStore(group)
		if err != nil {
			return err
		}
		group.Add(kind.Plural, namespaceREST{group.Storage(kind.Plural).(servedStorage), store})
		endpoint := kind.Plural + "/" + finalize
		group.Add(endpoint, updateOnly{group.Storage(endpoint).(updatedStorage)})
		return nil
	}
	return served
}

// servedStorage is what the endpoint of namespaces serves beside deletion.
type servedStorage interface {
	rest.Storage
	rest.Scoper
	rest.SingularNameProvider
	rest.ShortNamesProvider
	rest.CategoriesProvider
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.Creater
	rest.Updater
	rest.ResetFieldsStrategy
	rest.StorageVersionProvider
	rest.StorageWithReadiness
	rest.CorruptObjectDeleterProvider
}

var _ servedStorage = &resource.REST{}

// updatedStorage is what /finalize serves.
type updatedStorage interface {
	rest.Storage
	rest.Updater
	rest.ResetFieldsFilterStrategy
}

// updateOnly hides that a storage can be read and patched.
type updateOnly struct{ updatedStorage }

// namespaceREST deletes a namespace in two steps: the first deletion begins its termination, which a controller carries out, and
// the last one, when no finalizer is left, removes it.
type namespaceREST struct {
	servedStorage
	store *genericregistry.Store
}

var _ rest.GracefulDeleter = namespaceREST{}

// Delete implements rest.GracefulDeleter.
func (r namespaceREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, err := r.store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	ns := obj.(*corev1.Namespace)
	if options, err = bound(options, ns); err != nil {
		return nil, false, err
	}
	if ns.DeletionTimestamp == nil {
		out, err := r.terminate(ctx, name, validate, options)
		return out, false, err
	}
	if len(ns.Spec.Finalizers) > 0 {
		return ns, false, nil
	}
	return r.store.Delete(ctx, name, validate, options)
}

// bound returns options that mean this very namespace and not another one of its name. The error says that they mean another.
func bound(options *metav1.DeleteOptions, ns *corev1.Namespace) (*metav1.DeleteOptions, error) {
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	options = options.DeepCopy()
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	wanted := options.Preconditions
	if wanted.UID == nil {
		wanted.UID = &ns.UID
	}
	if *wanted.UID != ns.UID {
		return nil, conflict(ns.Name, fmt.Sprintf("the uid is %s, and the precondition asks for %s", ns.UID, *wanted.UID))
	}
	if version := wanted.ResourceVersion; version != nil && *version != ns.ResourceVersion {
		return nil, conflict(ns.Name, fmt.Sprintf("the resource version is %s, and the precondition asks for %s", ns.ResourceVersion, *version))
	}
	return options, nil
}

func conflict(name, why string) error {
	return apierrors.NewConflict(corev1.Resource("namespaces"), name, errors.New(why))
}

// terminate marks a namespace as being deleted.
func (r namespaceREST) terminate(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, error) {
	key, err := r.store.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	out := r.store.NewFunc()
	preconditions := &storage.Preconditions{UID: options.Preconditions.UID, ResourceVersion: options.Preconditions.ResourceVersion}
	err = r.store.Storage.GuaranteedUpdate(ctx, key, out, false, preconditions, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		if validate != nil {
			if refusal := validate(ctx, obj); refusal != nil {
				return nil, refusal
			}
		}
		markTerminating(obj.(*corev1.Namespace), options)
		return obj, nil
	}), dryrun.IsDryRun(options.DryRun), nil)
	if err == nil {
		return out, nil
	}
	err = storageerrors.InterpretGetError(err, corev1.Resource("namespaces"), name)
	err = storageerrors.InterpretUpdateError(err, corev1.Resource("namespaces"), name)
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		err = apierrors.NewInternalError(err)
	}
	return nil, err
}

// markTerminating leaves the finalizers of the garbage collector as the options ask for, and those of others as they are.
func markTerminating(ns *corev1.Namespace, options *metav1.DeleteOptions) {
	if ns.DeletionTimestamp == nil {
		now := metav1.Now()
		ns.DeletionTimestamp = &now
	}
	ns.Status.Phase = corev1.NamespaceTerminating
	var policy metav1.DeletionPropagation
	switch orphan := options.OrphanDependents; { //nolint:staticcheck // clients may still use it
	case orphan != nil && *orphan:
		policy = metav1.DeletePropagationOrphan
	case orphan != nil:
		policy = metav1.DeletePropagationForeground
	case options.PropagationPolicy != nil:
		policy = *options.PropagationPolicy
	default:
		return
	}
	ns.Finalizers = slices.DeleteFunc(ns.Finalizers, func(finalizer string) bool {
		return finalizer == metav1.FinalizerOrphanDependents && policy != metav1.DeletePropagationOrphan ||
			finalizer == metav1.FinalizerDeleteDependents && policy != metav1.DeletePropagationForeground
	})
	finalizer := map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationOrphan: metav1.FinalizerOrphanDependents, metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
	}[policy]
	if finalizer != "" && !slices.Contains(ns.Finalizers, finalizer) {
		ns.Finalizers = append(ns.Finalizers, finalizer)
	}
}
