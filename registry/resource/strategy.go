// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
)

// strategy is how objects of a kind are created, updated and deleted through their main endpoint.
type strategy[T Object] struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind   Kind[T]
	gating *gating
}

func (s strategy[T]) NamespaceScoped() bool { return s.kind.Scope == Namespaced }

func (s strategy[T]) AllowCreateOnUpdate(context.Context) bool { return s.kind.CreateOnUpdate }

func (s strategy[T]) AllowUnconditionalUpdate(context.Context) bool {
	return s.kind.UnconditionalUpdate
}

func (s strategy[T]) Canonicalize(runtime.Object) {}

func (s strategy[T]) PrepareForCreate(ctx context.Context, o runtime.Object) {
	obj := o.(T)
	clearStatus(obj)
	if s.kind.countsGenerations() {
		obj.SetGeneration(1)
	}
	if s.kind.PrepareForCreate != nil {
		s.kind.PrepareForCreate(ctx, obj)
	}
	s.gating.prepare(ctx, obj, nil)
}

func (s strategy[T]) PrepareForUpdate(ctx context.Context, o, oldObject runtime.Object) {
	obj, old := o.(T), oldObject.(T)
	// Types that are their own hub keep TypeMeta in storage and lose it when patched; a difference would look like a change.
	obj.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
	copyStatus(obj, old)
	if s.kind.PrepareForUpdate != nil {
		s.kind.PrepareForUpdate(ctx, obj, old)
	}
	s.gating.prepare(ctx, obj, old)
	if s.kind.countsGenerations() && !desiredStateEqual(obj, old) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}

func (s strategy[T]) Validate(ctx context.Context, o runtime.Object) field.ErrorList {
	obj := o.(T)
	validateName := s.kind.ValidateName
	if validateName == nil {
		validateName = validation.NameIsDNSSubdomain
	}
	errs := validation.ValidateObjectMetaAccessor(obj, s.NamespaceScoped(), validateName, field.NewPath("metadata"))
	errs = append(errs, s.validateFinalizers(obj)...)
	if s.kind.Validate != nil {
		errs = append(errs, s.kind.Validate(obj)...)
	}
	errs = append(errs, s.gating.errorsOf(ctx, obj, nil)...)
	var none T
	return append(errs, s.authorize(ctx, obj, none, errs)...)
}

func (s strategy[T]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := append(s.validateFinalizers(obj.(T)), s.gating.errorsOf(ctx, obj.(T), old.(T))...)
	if s.kind.ValidateUpdate != nil {
		errs = append(errs, s.kind.ValidateUpdate(obj.(T), old.(T))...)
	}
	return append(errs, s.authorize(ctx, obj.(T), old.(T), errs)...)
}

// authorize asks only about objects without other mistakes.
func (s strategy[T]) authorize(ctx context.Context, obj, old T, mistakes field.ErrorList) field.ErrorList {
	if s.kind.Authorize == nil || len(mistakes) > 0 {
		return nil
	}
	return s.kind.Authorize(ctx, obj, old)
}

func (s strategy[T]) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	var none T
	return s.warnings(ctx, obj.(T), none)
}

func (s strategy[T]) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	return s.warnings(ctx, obj.(T), old.(T))
}

func (s strategy[T]) warnings(ctx context.Context, obj, old T) []string {
	out := s.gating.warningsOf(ctx)
	if s.kind.Warnings != nil {
		out = append(out, s.kind.Warnings(ctx, obj, old)...)
	}
	return out
}

// subresourceStrategy updates the part of an object that a subresource is about and keeps the rest as it is stored.
type subresourceStrategy[T Object] struct {
	strategy[T]
	take func(into, from T)
	// metadata is set where the part comes with metadata.
	metadata bool
	// countsGeneration is set where the part is desired state; status is not.
	countsGeneration bool
	validate         func(obj, old T) field.ErrorList
}

func (s subresourceStrategy[T]) AllowCreateOnUpdate(context.Context) bool { return false }

func (s subresourceStrategy[T]) PrepareForUpdate(ctx context.Context, o, oldObject runtime.Object) {
	obj, old := o.(T), oldObject.(T)
	merged := old.DeepCopyObject().(T)
	s.take(merged, obj)
	if s.metadata {
		copyMetadata(merged, obj)
	}
	merged.SetResourceVersion(obj.GetResourceVersion())
	merged.SetManagedFields(obj.GetManagedFields())
	// Whoever names a uid means that object and not another of its name; the mismatch is found by what validates metadata.
	if uid := obj.GetUID(); uid != "" {
		merged.SetUID(uid)
	}
	s.gating.prepare(ctx, merged, old)
	if s.countsGeneration && !desiredStateEqual(merged, old) {
		merged.SetGeneration(old.GetGeneration() + 1)
	}
	assign(obj, merged)
}

func (s subresourceStrategy[T]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.gating.errorsOf(ctx, obj.(T), old.(T))
	if s.metadata {
		errs = append(errs, s.validateFinalizers(obj.(T))...)
	}
	if s.validate != nil {
		errs = append(errs, s.validate(obj.(T), old.(T))...)
	}
	return errs
}

func (s subresourceStrategy[T]) WarningsOnUpdate(ctx context.Context, _, _ runtime.Object) []string {
	return s.gating.warningsOf(ctx)
}
